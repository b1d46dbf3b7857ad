#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# probe.sh INCLUDE
#
# Says which variants of the kernel's interfaces the headers in INCLUDE have, as
# macros for include/compat/compat.h. It reads the headers rather than compares
# version numbers because distributions carry interfaces back.
set -eu

include=$1

# has MACRO HEADER REGEX: defines MACRO if HEADER matches the extended REGEX.
# The header is matched as one line with single spaces: prototypes get wrapped.
has()
{
	if [ -r "$include/$2" ] &&
	   tr -s '\n\t ' '   ' < "$include/$2" | grep -qE "$3"; then
		echo "#define $1 1"
	else
		echo "/* $1: no */"
	fi
}

if [ ! -r "$include/rdma/ib_verbs.h" ]; then
	echo "$0: no RDMA headers in $include; are the kernel headers installed?" >&2
	exit 1
fi

echo '/* Generated: what the kernel headers have. */'
has HAVE_CREATE_CQ_BUNDLE rdma/ib_verbs.h \
	'\(\*create_cq\)\([^)]*struct uverbs_attr_bundle \*'
has HAVE_RESIZE_USER_CQ rdma/ib_verbs.h '\(\*resize_user_cq\)\('
has HAVE_REG_USER_MR_DMAH rdma/ib_verbs.h \
	'\(\*reg_user_mr\)\([^)]*struct ib_dmah \*'
has HAVE_REG_USER_MR_DMABUF_BUNDLE rdma/ib_verbs.h \
	'\(\*reg_user_mr_dmabuf\)\([^)]*struct uverbs_attr_bundle \*'
has HAVE_COUNTER_PORT rdma/ib_verbs.h \
	'\(\*counter_bind_qp\)\([^)]*u32 port'
has HAVE_COUNTER_INIT rdma/ib_verbs.h '\(\*counter_init\)\('
has HAVE_FILL_RES_SRQ rdma/ib_verbs.h '\(\*fill_res_srq_entry\)\('
has HAVE_IB_FLUSH rdma/ib_verbs.h 'IB_WR_ATOMIC_WRITE ='
has HAVE_ODP_FLUSH rdma/ib_verbs.h 'IB_ODP_SUPPORT_FLUSH ='
has HAVE_IB_ALLOC_DEVICE_WITH_NET rdma/ib_verbs.h \
	'# ?define ib_alloc_device_with_net\('
has HAVE_UDP_TUNNEL_SOCK net/udp_tunnel.h \
	'udp_tunnel_sock_release\(struct sock \*'
has HAVE_DST_DEV net/dst.h 'struct net_device \*dst_dev\('
has HAVE_FLOWI4_DSCP net/flow.h '# ?define flowi4_dscp'
has HAVE_HRTIMER_SETUP linux/hrtimer.h 'void hrtimer_setup\('
has HAVE_TIMER_CONTAINER_OF linux/timer.h '# ?define timer_container_of\('
has HAVE_WQ_PERCPU linux/workqueue.h 'WQ_PERCPU ='
has HAVE_SHRINKER_ALLOC linux/shrinker.h 'struct shrinker \*shrinker_alloc\('
has HAVE_CRC32_OPTIMIZATIONS linux/crc32.h 'crc32_optimizations\('
# Before, a read-only pin of private memory could be left with a stale page.
has HAVE_UNRELIABLE_RO_PIN linux/mm.h \
	'gup_must_unshare\(unsigned int flags, struct page \*'
# Before, pin_user_pages() could give the areas as well.
has HAVE_PIN_USER_PAGES_VMAS linux/mm.h \
	'long pin_user_pages\([^)]*struct vm_area_struct \*\*'
# Before, dma_buf_vmap() took the locks that it needs.
has HAVE_DMA_BUF_VMAP_LOCKED linux/dma-buf.h 'dma_buf_vmap_unlocked\('
has HAVE_DMA_BUF_INVALIDATE_MAPPINGS linux/dma-buf.h \
	'\(\*invalidate_mappings\)\('
has HAVE_IMPORT_NS_STRING linux/module.h 'MODULE_INFO\(import_ns, ns\)'
