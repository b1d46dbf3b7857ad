/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters.  Called from every floor, calls none.
 */
#ifndef SROCE_OBSERVE_H
#define SROCE_OBSERVE_H

#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct ib_device;
struct ib_grh;
struct ib_mad;
struct ib_wc;
struct rdma_hw_stats;

/*
 * Every counter of a device: X(identifier, name as shown to the user).
 * The names that users of software RDMA devices know come first; why one of them is
 * the very first, see sroce_get_hw_stats().
 */
#define SROCE_COUNTERS(X)						\
	X(LINK_DOWNED,		"link_downed")				\
	X(SENT_PKTS,		"sent_pkts")				\
	X(RCVD_PKTS,		"rcvd_pkts")				\
	X(SENT_BYTES,		"sent_bytes")				\
	X(RCVD_BYTES,		"rcvd_bytes")				\
	X(SENT_MCAST,		"sent_mcast_pkts")			\
	X(RCVD_MCAST,		"rcvd_mcast_pkts")			\
	X(DUP_REQ,		"duplicate_request")			\
	X(OUT_OF_SEQ,		"out_of_seq_request")			\
	X(RCVD_RNR,		"rcvd_rnr_err")				\
	X(SENT_RNR,		"send_rnr_err")				\
	X(RCVD_SEQ_ERR,		"rcvd_seq_err")				\
	X(RETRY_EXCEEDED,	"retry_exceeded_err")			\
	X(RNR_EXCEEDED,		"retry_rnr_exceeded_err")		\
	X(RETRANSMITS,		"completer_retry_err")			\
	X(SEND_ERR,		"send_err")				\
	X(RDMA_SENDS,		"rdma_sends")				\
	X(RDMA_RECVS,		"rdma_recvs")				\
	X(TIMEOUTS,		"ack_timeouts")				\
	X(ACCESS_ERR,		"remote_access_errors")			\
	X(LOCAL_ERR,		"local_errors")				\
	X(LOCAL_SLICES,		"same_host_slices")			\
	X(ODP_FAULTS,		"odp_page_faults")			\
	X(DROP_ICRC,		"drop_icrc")				\
	X(DROP_MALFORMED,	"drop_malformed")			\
	X(DROP_NO_QP,		"drop_no_qp")				\
	X(DROP_ADDR,		"drop_wrong_address")			\
	X(DROP_STATE,		"drop_qp_state")			\
	X(DROP_PKEY,		"drop_pkey")				\
	X(DROP_QKEY,		"drop_qkey")				\
	X(DROP_MAILBOX,		"drop_mailbox_full")			\
	X(DROP_NO_RECV,		"drop_no_receive")			\
	X(DROP_MAD,		"drop_bad_mad")				\
	X(DROP_TOO_LONG,	"drop_too_long")			\
	X(DROP_NOMEM,		"drop_no_memory")			\
	X(DROP_RESPONSE,	"drop_stale_response")

enum sroce_counter {
#define X(id, name) SROCE_CNT_##id,
	SROCE_COUNTERS(X)
#undef X
	SROCE_NUM_COUNTERS
};

struct sroce_stats {
	u64 v[SROCE_NUM_COUNTERS];
};

/**
 * struct sroce_counters - counters of a device
 * @stats: of the device itself, and of all QPs that have none of their own
 * @lock: protects the others
 * @own: number -> counters of the QPs that are bound to them
 * @past: what those had counted that are gone
 */
struct sroce_counters {
	struct sroce_stats __percpu	*stats;
	struct mutex			lock;	/* own, past */
	struct xarray			own;
	struct sroce_stats		past;
};

/*
 * Bottom halves off: nobody comes between then, unless they can be preempted,
 * and where an addition isn't one instruction it needn't be made one.
 */
static inline void sroce_count_add(struct sroce_stats __percpu *stats,
				   enum sroce_counter c, u64 n)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		this_cpu_add(stats->v[c], n);
	else
		__this_cpu_add(stats->v[c], n);
}

static inline void sroce_count(struct sroce_stats __percpu *stats,
			       enum sroce_counter c)
{
	sroce_count_add(stats, c, 1);
}

/* stats.c; process context */
int sroce_counters_init(struct sroce_counters *counters);
void sroce_counters_destroy(struct sroce_counters *counters);
int sroce_own_stats_create(struct sroce_counters *counters, u32 *id);
void sroce_own_stats_destroy(struct sroce_counters *counters, u32 id);
struct sroce_stats __percpu *
sroce_own_stats(struct sroce_counters *counters, u32 id);
u64 sroce_counter_sum(const struct sroce_stats __percpu *stats,
		      enum sroce_counter c);
u64 sroce_counter_total(struct sroce_counters *counters, enum sroce_counter c);
struct rdma_hw_stats *sroce_alloc_own_hw_stats(void);

/* stats.c: ib_device_ops */
struct rdma_hw_stats *sroce_alloc_hw_port_stats(struct ib_device *ib, u32 port);
int sroce_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats,
		       u32 port, int index);

/* pma.c: ib_device_ops */
int sroce_process_mad(struct ib_device *ib, int flags, u32 port,
		      const struct ib_wc *in_wc, const struct ib_grh *in_grh,
		      const struct ib_mad *in, struct ib_mad *out,
		      size_t *out_size, u16 *out_pkey_index);

#endif
