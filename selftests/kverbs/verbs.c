// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verbs of kernel users, tried by a kernel user.
 *
 * Reading /proc/kverbs runs all cases on the device of the module parameter
 * "device", between RC QPs of that one device, and gives the results as TAP.
 * It knows the device only by ib_core, and may be unloaded at any time.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "kverbs.h"

static char device[IB_DEVICE_NAME_MAX] = "t0";
module_param_string(device, device, sizeof(device), 0444);
MODULE_PARM_DESC(device, "Name of the RDMA device to try (default t0)");

/* Of the one device: added and removed by ib_core, used by readers. */
static DEFINE_MUTEX(the_lock);
static struct ib_device *the_device;

bool check(struct fix *f, bool ok, int line,
				 const char *fmt, ...)
{
	va_list args;

	if (ok)
		return true;

	f->failed = true;
	seq_printf(f->m, "# kverbs.c:%d: ", line);
	va_start(args, fmt);
	seq_vprintf(f->m, fmt, args);
	va_end(args);
	seq_putc(f->m, '\n');

	return false;
}

/* work requests ----------------------------------------------------------- */

static void op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct op *op = container_of(wc->wr_cqe, struct op, cqe);

	op->wc = *wc;
	op->softirq = in_serving_softirq();
	complete(&op->done);
}

/* They live as long as the case: a completion may come late. */
struct op *op_new(struct fix *f)
{
	struct op *op = &f->ops[f->nops++ % NOPS];

	op->cqe.done = op_done;
	init_completion(&op->done);

	return op;
}

static bool op_poll(struct fix *f, struct op *op)
{
	if (f->ctx == IB_POLL_DIRECT) {
		ib_process_cq_direct(f->a.cq, -1);
		ib_process_cq_direct(f->b.cq, -1);
	}

	return completion_done(&op->done);
}

enum ib_wc_status op_wait(struct fix *f, struct op *op)
{
	unsigned long end = jiffies + msecs_to_jiffies(WAIT_MS);

	if (!op)
		return NOTHING;

	while (!op_poll(f, op)) {
		if (time_after(jiffies, end))
			return NOTHING;
		usleep_range(20, 200);
	}

	return op->wc.status;
}

struct op *post(struct fix *f, struct end *e, struct ib_send_wr *wr)
{
	struct op *op = op_new(f);

	wr->wr_cqe = &op->cqe;
	wr->send_flags |= IB_SEND_SIGNALED;

	return CHECK(f, !ib_post_send(e->qp, wr, NULL), "post_send") ? op :
								       NULL;
}

struct op *post_recv(struct fix *f, struct end *e, u64 addr, u32 len,
			    u32 lkey)
{
	struct ib_sge sge = { .addr = addr, .length = len, .lkey = lkey };
	struct op *op = op_new(f);
	struct ib_recv_wr wr = {
		.wr_cqe		= &op->cqe,
		.sg_list	= &sge,
		.num_sge	= 1,
	};

	return CHECK(f, !ib_post_recv(e->qp, &wr, NULL), "post_recv") ? op :
									NULL;
}

struct op *post_send(struct fix *f, struct end *e, u64 addr, u32 len,
			    u32 lkey, u32 inv)
{
	struct ib_sge sge = { .addr = addr, .length = len, .lkey = lkey };
	struct ib_send_wr wr = {
		.opcode			= inv ? IB_WR_SEND_WITH_INV : IB_WR_SEND,
		.sg_list		= &sge,
		.num_sge		= 1,
		.ex.invalidate_rkey	= inv,
	};

	return post(f, e, &wr);
}

static struct op *post_rdma(struct fix *f, struct end *e, enum ib_wr_opcode opcode,
			    u64 addr, u32 len, u32 lkey, u64 raddr, u32 rkey)
{
	struct ib_sge sge = { .addr = addr, .length = len, .lkey = lkey };
	struct ib_rdma_wr wr = {
		.wr.opcode	= opcode,
		.wr.sg_list	= &sge,
		.wr.num_sge	= 1,
		.remote_addr	= raddr,
		.rkey		= rkey,
	};

	return post(f, e, &wr.wr);
}

struct op *post_reg(struct fix *f, struct end *e, struct ib_mr *mr,
			   int access)
{
	struct ib_reg_wr wr = {
		.wr.opcode	= IB_WR_REG_MR,
		.mr		= mr,
		.key		= mr->rkey,
		.access		= access,
	};

	return post(f, e, &wr.wr);
}

struct op *post_inv(struct fix *f, struct end *e, u32 key)
{
	struct ib_send_wr wr = {
		.opcode			= IB_WR_LOCAL_INV,
		.ex.invalidate_rkey	= key,
	};

	return post(f, e, &wr);
}

/* the QPs ----------------------------------------------------------------- */

static int find_gid(struct fix *f, int *index, union ib_gid *gid)
{
	int i;

	for (i = 0; i < 16; i++) {
		const struct ib_gid_attr *attr;
		bool good;

		attr = rdma_get_gid_attr(f->dev, 1, i);
		if (IS_ERR(attr))
			continue;
		*gid = attr->gid;
		*index = i;
		good = attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
		       ipv6_addr_v4mapped((struct in6_addr *)gid);
		rdma_put_gid_attr(attr);
		if (good)
			return 0;
	}

	return -ENOENT;
}

int connect_one(struct fix *f, struct end *e, struct end *peer)
{
	struct ib_qp_attr attr = {
		.qp_state		= IB_QPS_RESET,
		.qp_access_flags	= IB_ACCESS_REMOTE_WRITE |
					  IB_ACCESS_REMOTE_READ,
		.port_num		= 1,
		.path_mtu		= IB_MTU_1024,
		.dest_qp_num		= peer->qp->qp_num,
		.rq_psn			= peer->qp->qp_num & 0xffff,
		.sq_psn			= e->qp->qp_num & 0xffff,
		.max_dest_rd_atomic	= 4,
		.max_rd_atomic		= 4,
		.min_rnr_timer		= 12,
		.timeout		= 17,
		.retry_cnt		= 7,
		.rnr_retry		= 7,
	};
	union ib_gid gid;
	int index, err;

	err = find_gid(f, &index, &gid);
	if (err)
		return err;

	attr.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, &gid, 0, index, 64, 0);

	err = ib_modify_qp(e->qp, &attr, IB_QP_STATE);
	if (err)
		return err;

	attr.qp_state = IB_QPS_INIT;
	err = ib_modify_qp(e->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTR;
	err = ib_modify_qp(e->qp, &attr, IB_QP_STATE | IB_QP_AV |
			   IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTS;

	return ib_modify_qp(e->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN |
			    IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			    IB_QP_MAX_QP_RD_ATOMIC);
}

bool pair_connect(struct fix *f)
{
	int err;

	err = connect_one(f, &f->a, &f->b);
	if (!err)
		err = connect_one(f, &f->b, &f->a);

	return CHECK(f, !err, "connect: %d", err);
}

static int end_make(struct fix *f, struct end *e)
{
	struct ib_qp_init_attr init = {
		.cap = {
			.max_send_wr	= QUEUE,
			.max_recv_wr	= QUEUE,
			.max_send_sge	= 1,
			.max_recv_sge	= 1,
		},
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
		.port_num	= 1,
	};
	int err;

	e->pd = ib_alloc_pd(f->dev, 0);
	if (IS_ERR(e->pd))
		return PTR_ERR(e->pd);

	e->cq = ib_alloc_cq(f->dev, NULL, 4 * QUEUE, 0, f->ctx);
	if (IS_ERR(e->cq)) {
		err = PTR_ERR(e->cq);
		goto err_pd;
	}

	init.send_cq = e->cq;
	init.recv_cq = e->cq;
	e->qp = ib_create_qp(e->pd, &init);
	if (IS_ERR(e->qp)) {
		err = PTR_ERR(e->qp);
		goto err_cq;
	}

	return 0;

err_cq:
	ib_free_cq(e->cq);
err_pd:
	ib_dealloc_pd(e->pd);
	e->pd = NULL;
	return err;
}

static void end_free(struct end *e)
{
	if (IS_ERR_OR_NULL(e->pd))
		return;

	/* Also in IB_POLL_DIRECT: it polls by itself. */
	ib_drain_qp(e->qp);
	ib_destroy_qp(e->qp);
	ib_free_cq(e->cq);
	ib_dealloc_pd(e->pd);
}

/* memory ------------------------------------------------------------------ */

void buf_free(struct fix *f, struct buf *buf)
{
	unsigned int i;

	if (!buf->page)
		return;

	for (i = 0; i < buf->n && buf->page[i]; i++)
		__free_page(buf->page[i]);
	kvfree(buf->page);
	kvfree(buf->sg);
	buf->page = NULL;
}

/* Neighbours in the list aren't neighbours in memory. */
bool buf_make(struct fix *f, struct buf *buf, unsigned int n)
{
	unsigned int i;
	int got;

	buf->n = n;
	buf->page = kvcalloc(n, sizeof(*buf->page), GFP_KERNEL);
	buf->sg = kvcalloc(n, sizeof(*buf->sg), GFP_KERNEL);
	if (!CHECK(f, buf->page && buf->sg, "memory"))
		goto err;

	for (i = 0; i < n; i++) {
		buf->page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!CHECK(f, buf->page[i], "memory"))
			goto err;
	}
	for (i = 0; i + 1 < n; i += 2)
		swap(buf->page[i], buf->page[i + 1]);

	sg_init_table(buf->sg, n);
	for (i = 0; i < n; i++)
		sg_set_page(&buf->sg[i], buf->page[i], PAGE_SIZE, 0);
	got = ib_dma_map_sg(f->dev, buf->sg, n, DMA_BIDIRECTIONAL);
	if (!CHECK(f, got == n, "%d of %u entries mapped", got, n))
		goto err;

	return true;

err:
	buf_free(f, buf);
	return false;
}

static u8 *byte_at(const struct buf *buf, size_t pos)
{
	return (u8 *)page_address(buf->page[pos / PAGE_SIZE]) +
	       pos % PAGE_SIZE;
}

static u8 pattern(size_t pos, u32 seed)
{
	return (pos * 13 + pos / PAGE_SIZE * 7 + seed * 31) & 0xff;
}

void buf_fill(const struct buf *buf, u32 seed)
{
	size_t pos;

	for (pos = 0; pos < buf->n * PAGE_SIZE; pos++)
		*byte_at(buf, pos) = pattern(pos, seed);
}

/* Bytes @off to @off + @len are those from @from on of pattern @seed. */
void buf_check(struct fix *f, const struct buf *buf, size_t off,
		      size_t len, u32 seed, size_t from, const char *what)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (!CHECK(f, *byte_at(buf, off + i) == pattern(from + i, seed),
			   "%s: wrong byte %zu of %zu", what, i, len))
			return;
}

u64 addr_of(const struct buf *buf, unsigned int page)
{
	return (uintptr_t)page_address(buf->page[page]);
}

/* Name @buf from byte @off on as the next memory of @mr. */
bool map(struct fix *f, struct ib_mr *mr, struct buf *buf,
		unsigned int off)
{
	int n = ib_map_mr_sg(mr, buf->sg, buf->n, &off, PAGE_SIZE);

	return CHECK(f, n == buf->n, "map_mr_sg: %d of %u", n, buf->n);
}

struct ib_mr *mr_make(struct fix *f, struct end *e, u32 n)
{
	struct ib_mr *mr = ib_alloc_mr(e->pd, IB_MR_TYPE_MEM_REG, n);

	return CHECK(f, !IS_ERR(mr), "alloc_mr: %ld", PTR_ERR(mr)) ? mr : NULL;
}

static void next_key(struct ib_mr *mr)
{
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
}

/* A is refused access; then both are connected again. */
static void refused(struct fix *f, enum ib_wr_opcode opcode, struct buf *buf,
		    u64 raddr, u32 rkey, const char *what)
{
	WANT(f, post_rdma(f, &f->a, opcode, addr_of(buf, 0), 16,
			  f->a.pd->local_dma_lkey, raddr, rkey),
	     IB_WC_REM_ACCESS_ERR, what);
	pair_connect(f);
}

/* cases ------------------------------------------------------------------- */

/* Many messages; completions come where the poll context says. */
static void send_recv(struct fix *f)
{
	struct buf src = {}, dst = {};
	struct op *r[PAGES], *s[PAGES];
	int i;

	if (!buf_make(f, &src, PAGES) || !buf_make(f, &dst, PAGES))
		goto out;

	buf_fill(&src, 1);
	for (i = 0; i < PAGES; i++)
		r[i] = post_recv(f, &f->b, addr_of(&dst, i), PAGE_SIZE,
				 f->b.pd->local_dma_lkey);
	for (i = 0; i < PAGES; i++)
		s[i] = post_send(f, &f->a, addr_of(&src, i), PAGE_SIZE,
				 f->a.pd->local_dma_lkey, 0);
	for (i = 0; i < PAGES; i++) {
		OK(f, s[i], "send");
		OK(f, r[i], "receive");
		if (f->failed)
			break;
		CHECK(f, r[i]->wc.byte_len == PAGE_SIZE && r[i]->wc.qp == f->b.qp,
		      "completion %d: byte_len %u", i, r[i]->wc.byte_len);
		if (f->ctx == IB_POLL_WORKQUEUE || f->ctx == IB_POLL_UNBOUND_WORKQUEUE)
			CHECK(f, !s[i]->softirq && !r[i]->softirq,
			      "a completion in softirq");
	}
	buf_check(f, &dst, 0, PAGES * PAGE_SIZE, 1, 0, "data");
out:
	buf_free(f, &src);
	buf_free(f, &dst);
}

static void reg_write_read(struct fix *f)
{
	const u32 off = 100, len = PAGES * PAGE_SIZE - off;
	struct buf src = {}, dst = {}, back = {};
	u32 lkey = f->a.pd->local_dma_lkey;
	struct ib_mr *mr = NULL;
	u32 i;

	if (!buf_make(f, &src, PAGES) || !buf_make(f, &dst, PAGES) ||
	    !buf_make(f, &back, PAGES))
		goto out;
	mr = mr_make(f, &f->b, PAGES);
	if (!mr || !map(f, mr, &dst, off))
		goto out;

	CHECK(f, mr->length == len, "length %llu", mr->length);
	buf_fill(&src, 2);
	refused(f, IB_WR_RDMA_WRITE, &src, mr->iova, mr->rkey,
		"before it is registered");
	OK(f, post_reg(f, &f->b, mr, REMOTE), "reg_mr");

	/* Pieces that have nothing to do with pages. */
	for (i = 0; i < PAGES - 1 && !f->failed; i++)
		OK(f, post_rdma(f, &f->a, IB_WR_RDMA_WRITE, addr_of(&src, i),
				PAGE_SIZE, lkey, mr->iova + i * PAGE_SIZE,
				mr->rkey), "write");
	buf_check(f, &dst, off, (PAGES - 1) * PAGE_SIZE, 2, 0, "written");
	for (i = 0; i < PAGES - 1 && !f->failed; i++)
		OK(f, post_rdma(f, &f->a, IB_WR_RDMA_READ, addr_of(&back, i),
				PAGE_SIZE, lkey, mr->iova + i * PAGE_SIZE,
				mr->rkey), "read");
	buf_check(f, &back, 0, (PAGES - 1) * PAGE_SIZE, 2, 0, "read");

	refused(f, IB_WR_RDMA_WRITE, &src, mr->iova - 1, mr->rkey, "before");
	refused(f, IB_WR_RDMA_WRITE, &src, mr->iova + len - 15, mr->rkey,
		"beyond");
	refused(f, IB_WR_RDMA_WRITE, &src, mr->iova, mr->rkey ^ 1, "key");

	OK(f, post_inv(f, &f->b, mr->rkey), "local_inv");
	OK(f, post_inv(f, &f->b, mr->rkey), "local_inv again");
	refused(f, IB_WR_RDMA_WRITE, &src, mr->iova, mr->rkey, "invalidated");
out:
	if (mr)
		ib_dereg_mr(mr);
	buf_free(f, &src);
	buf_free(f, &dst);
	buf_free(f, &back);
}

/* The pages of the next registration are out of reach until it is made. */
static void staged(struct fix *f)
{
	u32 lkey = f->a.pd->local_dma_lkey, old, i;
	struct buf src = {}, one = {}, two = {};
	struct ib_mr *mr = NULL;
	struct op *inv, *reg;
	u64 iova;

	if (!buf_make(f, &src, 4) || !buf_make(f, &one, 4) ||
	    !buf_make(f, &two, 4))
		goto out;
	mr = mr_make(f, &f->b, 4);
	if (!mr || !map(f, mr, &one, 0))
		goto out;

	buf_fill(&src, 3);
	buf_fill(&one, 4);
	buf_fill(&two, 5);
	OK(f, post_reg(f, &f->b, mr, REMOTE), "reg_mr");
	iova = mr->iova;
	old = mr->rkey;
	if (!map(f, mr, &two, 0))
		goto out;
	for (i = 0; i < 4; i++)
		OK(f, post_rdma(f, &f->a, IB_WR_RDMA_WRITE, addr_of(&src, i),
				PAGE_SIZE, lkey, iova + i * PAGE_SIZE, old),
		   "write before");
	buf_check(f, &one, 0, 4 * PAGE_SIZE, 3, 0, "the old pages");
	buf_check(f, &two, 0, 4 * PAGE_SIZE, 5, 0, "the new pages");

	/* In one go, as the RDMA R/W API does it. */
	inv = post_inv(f, &f->b, old);
	next_key(mr);
	CHECK(f, mr->rkey != old, "the same key");
	reg = post_reg(f, &f->b, mr, REMOTE);
	OK(f, inv, "local_inv");
	OK(f, reg, "reg_mr of other pages");
	buf_fill(&src, 6);
	for (i = 0; i < 4; i++)
		OK(f, post_rdma(f, &f->a, IB_WR_RDMA_WRITE, addr_of(&src, i),
				PAGE_SIZE, lkey, mr->iova + i * PAGE_SIZE,
				mr->rkey), "write after");
	buf_check(f, &one, 0, 4 * PAGE_SIZE, 3, 0, "the old pages");
	buf_check(f, &two, 0, 4 * PAGE_SIZE, 6, 0, "the new pages");
	refused(f, IB_WR_RDMA_WRITE, &src, iova, old, "the old key");

	/* Again, the same pages. */
	OK(f, post_inv(f, &f->b, mr->rkey), "local_inv");
	next_key(mr);
	OK(f, post_reg(f, &f->b, mr, REMOTE), "reg_mr of the same pages");
	buf_fill(&src, 7);
	OK(f, post_rdma(f, &f->a, IB_WR_RDMA_WRITE, addr_of(&src, 3), PAGE_SIZE,
			lkey, mr->iova + 3 * PAGE_SIZE, mr->rkey), "write again");
	buf_check(f, &two, 3 * PAGE_SIZE, PAGE_SIZE, 7, 3 * PAGE_SIZE,
		  "the same pages");
out:
	if (mr)
		ib_dereg_mr(mr);
	buf_free(f, &src);
	buf_free(f, &one);
	buf_free(f, &two);
}

/* What can't be registered: an error completion, and the QP is in error. */
static void reg_refused(struct fix *f)
{
	struct ib_mr *mr = NULL, *alien = NULL;
	struct buf buf = {};
	u32 key;

	if (!buf_make(f, &buf, 4))
		return;
	mr = mr_make(f, &f->b, 4);
	alien = mr_make(f, &f->a, 4);
	if (!mr || !alien || !map(f, alien, &buf, 0))
		goto out;

	WANT(f, post_reg(f, &f->b, mr, REMOTE), IB_WC_MW_BIND_ERR, "no pages");
	pair_connect(f);
	if (!map(f, mr, &buf, 0))
		goto out;
	WANT(f, post_reg(f, &f->b, alien, REMOTE), IB_WC_MW_BIND_ERR, "PD");
	pair_connect(f);
	WANT(f, post_reg(f, &f->b, mr, IB_ACCESS_REMOTE_WRITE),
	     IB_WC_MW_BIND_ERR, "remote write without local write");
	pair_connect(f);
	WANT(f, post_reg(f, &f->b, mr, IB_ACCESS_MW_BIND), IB_WC_MW_BIND_ERR,
	     "access");
	pair_connect(f);
	mr->length += 1;
	WANT(f, post_reg(f, &f->b, mr, REMOTE), IB_WC_MW_BIND_ERR, "too long");
	mr->length -= 1;
	pair_connect(f);
	OK(f, post_reg(f, &f->b, mr, REMOTE), "reg_mr");
	key = mr->rkey;
	next_key(mr);
	WANT(f, post_reg(f, &f->b, mr, REMOTE), IB_WC_MW_BIND_ERR,
	     "registered already");
	pair_connect(f);
	WANT(f, post_inv(f, &f->b, mr->rkey), IB_WC_MW_BIND_ERR,
	     "local_inv of another key");
	pair_connect(f);
	WANT(f, post_inv(f, &f->a, key), IB_WC_MW_BIND_ERR,
	     "local_inv in another PD");
	pair_connect(f);
	OK(f, post_inv(f, &f->b, key), "local_inv");
out:
	if (mr)
		ib_dereg_mr(mr);
	if (alien)
		ib_dereg_mr(alien);
	buf_free(f, &buf);
}

static void alloc_refused(struct fix *f)
{
	u32 max = f->dev->attrs.max_fast_reg_page_list_len;
	struct ib_mr *mr;

	CHECK(f, f->dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS,
	      "no MEM_MGT_EXTENSIONS");
	mr = mr_make(f, &f->b, max);
	if (mr)
		ib_dereg_mr(mr);
	mr = ib_alloc_mr(f->b.pd, IB_MR_TYPE_MEM_REG, max + 1);
	if (!CHECK(f, IS_ERR(mr), "more pages than the device has"))
		ib_dereg_mr(mr);
	mr = ib_alloc_mr(f->b.pd, IB_MR_TYPE_SG_GAPS, 4);
	if (!CHECK(f, IS_ERR(mr), "a list with gaps"))
		ib_dereg_mr(mr);
}

/* Registered memory by its lkey, on both sides. */
static void reg_local(struct fix *f)
{
	struct ib_mr *smr = NULL, *dmr = NULL;
	struct buf src = {}, dst = {};
	u32 len = PAGES * PAGE_SIZE;
	struct op *r, *s, *inv;

	if (!buf_make(f, &src, PAGES) || !buf_make(f, &dst, PAGES))
		goto out;
	smr = mr_make(f, &f->a, PAGES);
	dmr = mr_make(f, &f->b, PAGES);
	if (!smr || !dmr || !map(f, smr, &src, 0) || !map(f, dmr, &dst, 0))
		goto out;

	buf_fill(&src, 8);
	OK(f, post_reg(f, &f->a, smr, 0), "reg_mr to read");
	OK(f, post_reg(f, &f->b, dmr, IB_ACCESS_LOCAL_WRITE), "reg_mr to write");
	r = post_recv(f, &f->b, dmr->iova, len, dmr->lkey);
	s = post_send(f, &f->a, smr->iova, len, smr->lkey, 0);
	OK(f, s, "send");
	OK(f, r, "receive");
	buf_check(f, &dst, 0, len, 8, 0, "data");

	/* What is sent again because there was no receive needs the key. */
	s = post_send(f, &f->a, smr->iova, len, smr->lkey, 0);
	inv = post_inv(f, &f->a, smr->lkey);
	msleep(30);
	CHECK(f, !completion_done(&inv->done), "local_inv before the send");
	buf_fill(&dst, 0);
	r = post_recv(f, &f->b, dmr->iova, len, dmr->lkey);
	OK(f, s, "send that waited");
	OK(f, r, "receive");
	OK(f, inv, "local_inv");
	buf_check(f, &dst, 0, len, 8, 0, "data");

	/* A key is gone for local use too. */
	WANT(f, post_send(f, &f->a, smr->iova, 16, smr->lkey, 0),
	     IB_WC_LOC_PROT_ERR, "send from what was invalidated");
out:
	if (smr)
		ib_dereg_mr(smr);
	if (dmr)
		ib_dereg_mr(dmr);
	buf_free(f, &src);
	buf_free(f, &dst);
}

static void send_with_inv(struct fix *f)
{
	u32 a_lkey = f->a.pd->local_dma_lkey, b_lkey = f->b.pd->local_dma_lkey;
	struct buf src = {}, dst = {}, msg = {};
	struct ib_mr *mr = NULL;
	struct op *r, *s;
	int i;

	if (!buf_make(f, &src, 2) || !buf_make(f, &dst, 4) ||
	    !buf_make(f, &msg, 1))
		goto out;
	mr = mr_make(f, &f->b, 4);
	if (!mr || !map(f, mr, &dst, 0))
		goto out;

	for (i = 0; i < 3 && !f->failed; i++) {
		OK(f, post_reg(f, &f->b, mr, REMOTE), "reg_mr");
		r = post_recv(f, &f->b, addr_of(&msg, 0), PAGE_SIZE, b_lkey);
		OK(f, post_rdma(f, &f->a, IB_WR_RDMA_WRITE, addr_of(&src, 0),
				PAGE_SIZE, a_lkey, mr->iova, mr->rkey), "write");
		s = post_send(f, &f->a, addr_of(&src, 1), 3000, a_lkey,
			      mr->rkey);
		OK(f, s, "send with invalidate");
		OK(f, r, "receive");
		if (f->failed)
			break;
		CHECK(f, r->wc.wc_flags & IB_WC_WITH_INVALIDATE &&
		      r->wc.ex.invalidate_rkey == mr->rkey,
		      "flags %#x key %#x, not %#x", r->wc.wc_flags,
		      r->wc.ex.invalidate_rkey, mr->rkey);
		refused(f, IB_WR_RDMA_WRITE, &src, mr->iova, mr->rkey,
			"invalidated by the peer");
		next_key(mr);
	}

	/* Not reachable for the peer: not its to invalidate. */
	OK(f, post_reg(f, &f->b, mr, IB_ACCESS_LOCAL_WRITE), "reg_mr");
	r = post_recv(f, &f->b, addr_of(&msg, 0), PAGE_SIZE, b_lkey);
	s = post_send(f, &f->a, addr_of(&src, 1), 16, a_lkey, mr->rkey);
	WANT(f, s, IB_WC_REM_ACCESS_ERR, "invalidate of local memory");
	WANT(f, r, IB_WC_REM_INV_REQ_ERR, "its receive");
	pair_connect(f);
	r = post_recv(f, &f->b, mr->iova, 16, mr->lkey);
	OK(f, post_send(f, &f->a, addr_of(&src, 1), 16, a_lkey, 0), "send");
	OK(f, r, "receive into what is still registered");
out:
	if (mr)
		ib_dereg_mr(mr);
	buf_free(f, &src);
	buf_free(f, &dst);
	buf_free(f, &msg);
}

/* More pages than one registration takes: several, at work together. */
static void large_list(struct fix *f)
{
	u32 max = f->dev->attrs.max_fast_reg_page_list_len;
	u32 n = 2 * max + max / 2, done = 0;
	struct buf src = {}, dst = {};
	struct ib_mr *mr[4] = {};
	struct op *reg[4], *io[4];
	unsigned int i, k;

	if (!buf_make(f, &src, 1) || !buf_make(f, &dst, n))
		goto out;
	buf_fill(&src, 9);
	for (k = 0; done < n && k < 4; k++) {
		int got;

		mr[k] = mr_make(f, &f->b, max);
		if (!mr[k])
			goto out;
		got = ib_map_mr_sg(mr[k], dst.sg + done, n - done, NULL,
				   PAGE_SIZE);
		if (!CHECK(f, got == min(max, n - done), "map_mr_sg: %d", got))
			goto out;
		done += got;
		reg[k] = post_reg(f, &f->b, mr[k], REMOTE);
	}
	CHECK(f, k == 3, "%u registrations", k);
	for (i = 0; i < k; i++)
		OK(f, reg[i], "reg_mr");
	/* First and last page of each. */
	for (i = 0; i < k && !f->failed; i++) {
		io[0] = post_rdma(f, &f->a, IB_WR_RDMA_WRITE, addr_of(&src, 0),
				  PAGE_SIZE, f->a.pd->local_dma_lkey,
				  mr[i]->iova, mr[i]->rkey);
		io[1] = post_rdma(f, &f->a, IB_WR_RDMA_WRITE, addr_of(&src, 0),
				  PAGE_SIZE, f->a.pd->local_dma_lkey,
				  mr[i]->iova + mr[i]->length - PAGE_SIZE,
				  mr[i]->rkey);
		OK(f, io[0], "write");
		OK(f, io[1], "write");
	}
	for (i = 0; i < k && !f->failed; i++) {
		size_t first = (size_t)i * max * PAGE_SIZE;

		buf_check(f, &dst, first, PAGE_SIZE, 9, 0, "first page");
		buf_check(f, &dst, first + mr[i]->length - PAGE_SIZE, PAGE_SIZE,
			  9, 0, "last page");
		CHECK(f, !*byte_at(&dst, first + PAGE_SIZE + 1), "page between");
	}
	for (i = 0; i < k; i++)
		OK(f, post_inv(f, &f->b, mr[i]->rkey), "local_inv");
out:
	for (i = 0; i < 4; i++)
		if (mr[i])
			ib_dereg_mr(mr[i]);
	buf_free(f, &src);
	buf_free(f, &dst);
}

/* When a drain returns, every completion has been handled. */
static void drain(struct fix *f)
{
	u32 lkey = f->a.pd->local_dma_lkey;
	struct op *r[50], *s[50];
	struct buf buf = {};
	int i, done = 0;

	if (!buf_make(f, &buf, 2))
		return;

	/* Of the SENDs the second half finds no receive. */
	for (i = 0; i < 25; i++)
		r[i] = post_recv(f, &f->b, addr_of(&buf, 1), 64,
				 f->b.pd->local_dma_lkey);
	for (i = 0; i < 50; i++)
		s[i] = post_send(f, &f->a, addr_of(&buf, 0), 64, lkey, 0);
	for (i = 25; i < 50; i++)
		r[i] = post_recv(f, &f->a, addr_of(&buf, 1), 64, lkey);
	if (f->failed)
		goto out;
	ib_drain_qp(f->a.qp);
	for (i = 0; i < 50; i++) {
		if (!CHECK(f, completion_done(&s[i]->done),
			   "send %d is not completed", i))
			break;
		done += s[i]->wc.status == IB_WC_SUCCESS;
		CHECK(f, s[i]->wc.status == IB_WC_SUCCESS ||
		      s[i]->wc.status == IB_WC_WR_FLUSH_ERR, "send %d: %s", i,
		      ib_wc_status_msg(s[i]->wc.status));
	}
	CHECK(f, done <= 25, "%d sends were received", done);
	for (i = 25; i < 50; i++)
		if (!CHECK(f, completion_done(&r[i]->done) &&
			   r[i]->wc.status == IB_WC_WR_FLUSH_ERR,
			   "receive %d is not flushed", i))
			break;
	ib_drain_rq(f->b.qp);
	for (i = 0; i < 25; i++)
		if (!CHECK(f, completion_done(&r[i]->done),
			   "receive %d is not completed", i))
			break;
	pair_connect(f);
	ib_drain_sq(f->b.qp);
	ib_drain_sq(f->a.qp);
	ib_drain_rq(f->a.qp);
out:
	buf_free(f, &buf);
}

/* WRITEs by the peer, from another CPU. */
struct writer {
	struct work_struct	work;
	struct fix		*f;
	struct ib_mr		*from, *to;
	struct op		*op[16];
};

static void writer_run(struct work_struct *work)
{
	struct writer *w = container_of(work, struct writer, work);
	int i;

	for (i = 0; i < ARRAY_SIZE(w->op); i++)
		w->op[i] = post_rdma(w->f, &w->f->a, IB_WR_RDMA_WRITE,
				     w->from->iova, w->from->length,
				     w->from->lkey, w->to->iova, w->to->rkey);
}

/* One round; the QP that registers and invalidates is @c. */
static void revoke_round(struct fix *f, struct end *c, struct writer *w,
			 struct buf *src, struct buf *dst, u8 *copy, u32 round)
{
	unsigned int cpu;
	struct op *inv;
	int i;

	OK(f, post_reg(f, c, w->to, REMOTE), "reg_mr");
	OK(f, post_reg(f, &f->a, w->from, 0), "reg_mr");
	buf_fill(src, round);

	cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	INIT_WORK_ONSTACK(&w->work, writer_run);
	schedule_work_on(cpu < nr_cpu_ids ? cpu : 0, &w->work);
	usleep_range(10 + 13 * round, 20 + 13 * round);
	inv = post_inv(f, c, w->to->rkey);
	OK(f, inv, "local_inv");
	for (i = 0; i < PAGES; i++)
		memcpy(copy + i * PAGE_SIZE, page_address(dst->page[i]),
		       PAGE_SIZE);
	flush_work(&w->work);
	destroy_work_on_stack(&w->work);
	for (i = 0; i < ARRAY_SIZE(w->op); i++)
		op_wait(f, w->op[i]);
	for (i = 0; i < PAGES; i++)
		if (!CHECK(f, !memcmp(copy + i * PAGE_SIZE,
				      page_address(dst->page[i]), PAGE_SIZE),
			   "round %u: written after it was invalidated", round))
			break;

	next_key(w->to);
	pair_connect(f);
	OK(f, post_inv(f, &f->a, w->from->rkey), "local_inv");
	next_key(w->from);
}

/*
 * Memory that was invalidated isn't written any more, however busy the peer
 * is: LOCAL_INV of one QP, while WRITEs come in at another.
 */
static void revoke(struct fix *f)
{
	struct ib_qp_init_attr init = {
		.send_cq	= f->b.cq,
		.recv_cq	= f->b.cq,
		.cap		= { .max_send_wr = QUEUE, .max_send_sge = 1 },
		.qp_type	= IB_QPT_RC,
		.port_num	= 1,
	};
	struct end c = { .pd = f->b.pd, .cq = f->b.cq };
	struct writer w = { .f = f };
	struct buf src = {}, dst = {};
	u8 *copy;
	u32 i;

	c.qp = ib_create_qp(c.pd, &init);
	if (!CHECK(f, !IS_ERR(c.qp), "create_qp: %ld", PTR_ERR(c.qp)))
		return;

	copy = kvmalloc(PAGES * PAGE_SIZE, GFP_KERNEL);
	if (!CHECK(f, copy, "memory") ||
	    !CHECK(f, !connect_one(f, &c, &c), "connect to itself") ||
	    !buf_make(f, &src, PAGES) || !buf_make(f, &dst, PAGES))
		goto out;
	w.to = mr_make(f, &f->b, PAGES);
	w.from = mr_make(f, &f->a, PAGES);
	if (!w.to || !w.from || !map(f, w.to, &dst, 0) ||
	    !map(f, w.from, &src, 0))
		goto out;

	for (i = 0; i < 40 && !f->failed; i++)
		revoke_round(f, &c, &w, &src, &dst, copy, i);
out:
	ib_drain_qp(c.qp);
	ib_destroy_qp(c.qp);
	if (w.to)
		ib_dereg_mr(w.to);
	if (w.from)
		ib_dereg_mr(w.from);
	buf_free(f, &src);
	buf_free(f, &dst);
	kvfree(copy);
}

/* A plain CQ, whose handler is called by the device itself. */
struct heard {
	struct completion	done;
	struct task_struct	*by;
	bool			may_sleep;
	struct ib_qp		*qp;
	int			err;
};

static void hear(struct ib_cq *cq, void *context)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	struct heard *h = context;

	h->by = current;
	h->may_sleep = preemptible();
	/* Posting to the QP whose completion it is must be fine. */
	h->err = ib_post_send(h->qp, &wr, NULL);
	complete(&h->done);
}

/*
 * A handler may hold what whoever posts holds as well: it isn't called from
 * within a post, nor with anything of the device locked.
 */
static void handler(struct fix *f)
{
	struct ib_cq_init_attr attr = { .cqe = QUEUE };
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = QUEUE, .max_send_sge = 1 },
		.qp_type	= IB_QPT_RC,
		.port_num	= 1,
	};
	struct end c = { .pd = f->a.pd };
	struct heard h = {};
	struct op *r[2];
	struct ib_wc wc;
	int i;

	init_completion(&h.done);
	c.cq = ib_create_cq(f->dev, hear, NULL, &h, &attr);
	if (!CHECK(f, !IS_ERR(c.cq), "create_cq: %ld", PTR_ERR(c.cq)))
		return;
	init.send_cq = c.cq;
	init.recv_cq = c.cq;
	c.qp = ib_create_qp(c.pd, &init);
	if (!CHECK(f, !IS_ERR(c.qp), "create_qp: %ld", PTR_ERR(c.qp)))
		goto out_cq;
	h.qp = c.qp;
	if (!CHECK(f, !connect_one(f, &c, &f->b) && !connect_one(f, &f->b, &c),
		   "connect"))
		goto out_qp;

	for (i = 0; i < 2; i++)
		r[i] = post_recv(f, &f->b, 0, 0, f->b.pd->local_dma_lkey);
	ib_req_notify_cq(c.cq, IB_CQ_NEXT_COMP);
	if (post_send(f, &c, 0, 0, c.pd->local_dma_lkey, 0) &&
	    CHECK(f, wait_for_completion_timeout(&h.done, 20 * HZ),
		  "the handler wasn't called")) {
		CHECK(f, h.by != current, "called from within a post");
		CHECK(f, h.may_sleep, "called where it may not sleep");
		CHECK(f, !h.err, "post_send in the handler: %d", h.err);
	}
	for (i = 0; i < 2; i++)
		OK(f, r[i], "receive");
	while (ib_poll_cq(c.cq, 1, &wc) > 0)
		CHECK(f, !wc.status, "send: %s", ib_wc_status_msg(wc.status));
out_qp:
	ib_destroy_qp(c.qp);
out_cq:
	ib_destroy_cq(c.cq);
}

/* Receives posted while the QP goes to the error state, from another CPU. */
struct poster {
	struct work_struct	work;
	struct fix		*f;
	struct op		*op[QUEUE];
	unsigned int		n;
};

static void poster_run(struct work_struct *work)
{
	struct poster *p = container_of(work, struct poster, work);
	struct ib_pd *pd = p->f->b.pd;

	for (p->n = 0; p->n < QUEUE && !p->f->failed; p->n++) {
		p->op[p->n] = post_recv(p->f, &p->f->b, 0, 0, pd->local_dma_lkey);
		ndelay(p->n * 3);
	}
}

/* None of them is forgotten, whichever comes first. */
static void recv_beside_error(struct fix *f)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct poster p = { .f = f };
	unsigned long end = jiffies + HZ;
	unsigned int cpu, i, round;

	for (round = 0; time_before(jiffies, end) && !f->failed; round++) {
		cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
		INIT_WORK_ONSTACK(&p.work, poster_run);
		schedule_work_on(cpu < nr_cpu_ids ? cpu : 0, &p.work);
		udelay(round % 50);
		CHECK(f, !ib_modify_qp(f->b.qp, &attr, IB_QP_STATE), "to ERR");
		flush_work(&p.work);
		destroy_work_on_stack(&p.work);
		for (i = 0; i < p.n && !f->failed; i++)
			WANT(f, p.op[i], IB_WC_WR_FLUSH_ERR, "receive");
		pair_connect(f);
	}
}

static const struct {
	const char		*name;
	void			(*run)(struct fix *f);
	enum ib_poll_context	ctx;
} cases[] = {
	{ "send_direct",	send_recv,	IB_POLL_DIRECT },
	{ "send_softirq",	send_recv,	IB_POLL_SOFTIRQ },
	{ "send_workqueue",	send_recv,	IB_POLL_WORKQUEUE },
	{ "send_unbound",	send_recv,	IB_POLL_UNBOUND_WORKQUEUE },
	{ "alloc_mr_limits",	alloc_refused,	IB_POLL_DIRECT },
	{ "reg_mr_softirq",	reg_write_read,	IB_POLL_SOFTIRQ },
	{ "reg_mr_workqueue",	reg_write_read,	IB_POLL_WORKQUEUE },
	{ "reg_mr_next_pages",	staged,		IB_POLL_SOFTIRQ },
	{ "reg_mr_refused",	reg_refused,	IB_POLL_SOFTIRQ },
	{ "reg_mr_lkey",	reg_local,	IB_POLL_WORKQUEUE },
	{ "send_with_inv",	send_with_inv,	IB_POLL_SOFTIRQ },
	{ "large_list",		large_list,	IB_POLL_UNBOUND_WORKQUEUE },
	{ "revoke",		revoke,		IB_POLL_SOFTIRQ },
	{ "srq_softirq",	srq_shared,	IB_POLL_SOFTIRQ },
	{ "srq_workqueue",	srq_shared,	IB_POLL_WORKQUEUE },
	{ "srq_last_wqe",	srq_last_wqe,	IB_POLL_SOFTIRQ },
	{ "events_outside",	events_outside,	IB_POLL_SOFTIRQ },
	{ "cq_pool",		cq_pool,	IB_POLL_SOFTIRQ },
	{ "rw_lists",		rw_lists,	IB_POLL_SOFTIRQ },
	{ "rw_lists_mr",	rw_lists_mr,	IB_POLL_WORKQUEUE },
	{ "gid_gone",		gid_gone,	IB_POLL_SOFTIRQ },
	{ "rdma_cm",		cm_connect,	IB_POLL_SOFTIRQ },
	{ "handler",		handler,	IB_POLL_SOFTIRQ },
	{ "recv_beside_error",	recv_beside_error, IB_POLL_WORKQUEUE },
	{ "drain_direct",	drain,		IB_POLL_DIRECT },
	{ "drain_softirq",	drain,		IB_POLL_SOFTIRQ },
	{ "drain_workqueue",	drain,		IB_POLL_WORKQUEUE },
	{ "drain_unbound",	drain,		IB_POLL_UNBOUND_WORKQUEUE },
};

static void run_case(struct fix *f, unsigned int i)
{
	int err;

	f->ctx = cases[i].ctx;
	f->ops = kvcalloc(NOPS, sizeof(*f->ops), GFP_KERNEL);
	if (!CHECK(f, f->ops, "memory"))
		goto out;

	err = end_make(f, &f->a);
	if (!err)
		err = end_make(f, &f->b);
	if (CHECK(f, !err, "objects: %d", err) && pair_connect(f))
		cases[i].run(f);

	end_free(&f->a);
	end_free(&f->b);
	kvfree(f->ops);
out:
	seq_printf(f->m, "%sok %u %s\n", f->failed ? "not " : "", i + 1,
		   cases[i].name);
}

static int show(struct seq_file *m, void *v)
{
	unsigned int i;

	/* As long as this is held, the device doesn't go. */
	mutex_lock(&the_lock);
	seq_printf(m, "TAP version 13\n1..%zu\n", ARRAY_SIZE(cases));
	for (i = 0; i < ARRAY_SIZE(cases) && the_device; i++) {
		struct fix f = { .dev = the_device, .m = m };

		run_case(&f, i);
		cond_resched();
	}
	mutex_unlock(&the_lock);

	return 0;
}

static int open(struct inode *inode, struct file *file)
{
	/* All of it must fit at once: if it didn't, all would be run again. */
	return single_open_size(file, show, NULL, 64 * 1024);
}

static const struct proc_ops ops = {
	.proc_open	= open,
	.proc_read	= seq_read,
	.proc_lseek	= seq_lseek,
	.proc_release	= single_release,
};

static int add_one(struct ib_device *dev)
{
	if (strcmp(dev_name(&dev->dev), device))
		return -EOPNOTSUPP;

	mutex_lock(&the_lock);
	the_device = dev;
	mutex_unlock(&the_lock);

	return 0;
}

static void remove_one(struct ib_device *dev, void *data)
{
	mutex_lock(&the_lock);
	if (the_device == dev)
		the_device = NULL;
	mutex_unlock(&the_lock);
}

static struct ib_client client = {
	.name	= "kverbs",
	.add	= add_one,
	.remove	= remove_one,
};

static int __init kverbs_init(void)
{
	int err;

	err = ib_register_client(&client);
	if (err)
		return err;

	if (!proc_create("kverbs", 0400, NULL, &ops)) {
		ib_unregister_client(&client);
		return -ENOMEM;
	}

	return 0;
}

static void __exit kverbs_exit(void)
{
	/* Waits for readers. */
	remove_proc_entry("kverbs", NULL);
	ib_unregister_client(&client);
}

module_init(kverbs_init);
module_exit(kverbs_exit);

MODULE_DESCRIPTION("Selftest of RDMA verbs for kernel users");
MODULE_LICENSE("GPL");
