// SPDX-License-Identifier: GPL-2.0-only
/*
 * From SGE lists to referenced segments, and the copies between them.
 */
#include <linux/io.h>
#include <linux/overflow.h>
#include <linux/skbuff.h>
#include <linux/string.h>

#include "memory/memory.h"

/**
 * sroce_segs_get() - reference a part of the memory that an SGE list names
 * @keys: key table of the device
 * @pd: protection domain of the QP
 * @access: enum ib_access_flags that every segment needs; 0 to read
 * @sge: the list; the memory is the concatenation of its elements
 * @nsge: elements of @sge
 * @skip: bytes of the memory before the part
 * @len: bytes of the part
 * @seg: filled in
 * @max: room in @seg
 *
 * An SGE is checked as far as it is touched: one of length 0, or outside the
 * part, may name anything (IBTA 10.8.2).
 *
 * Context: softirq or bottom halves off.
 * Return: the number of segments, to be given back with sroce_segs_put(); or,
 * with nothing held, what sroce_region_get() says, or -EMSGSIZE when the list
 * is shorter than @skip + @len or @seg too small.
 */
int sroce_segs_get(struct sroce_keys *keys, const struct ib_pd *pd, int access,
		   const struct ib_sge *sge, unsigned int nsge, u32 skip,
		   u32 len, struct sroce_seg *seg, unsigned int max)
{
	unsigned int n = 0;
	int err;

	for (; nsge && len; nsge--, sge++) {
		struct sroce_region *region;
		u32 take;
		u64 iova;

		if (sge->length <= skip) {
			skip -= sge->length;
			continue;
		}

		if (n == max)
			break;

		if (check_add_overflow(sge->addr, (u64)skip, &iova)) {
			err = -ERANGE;
			goto err_put;
		}

		take = min(len, sge->length - skip);
		region = sroce_region_get(keys, sge->lkey, pd, access, iova,
					  take);
		if (IS_ERR(region)) {
			err = PTR_ERR(region);
			goto err_put;
		}

		seg[n++] = (struct sroce_seg){
			.region	= region,
			.iova	= iova,
			.len	= take,
			.more	= sge->length - skip - take,
		};
		len -= take;
		skip = 0;
	}

	if (!len)
		return n;

	err = -EMSGSIZE;
err_put:
	sroce_segs_put(seg, n);
	return err;
}

/**
 * sroce_segs_put() - give back what sroce_segs_get() took
 * @seg: segments; held or not
 * @nseg: how many
 *
 * Context: as sroce_region_put().
 */
void sroce_segs_put(struct sroce_seg *seg, unsigned int nseg)
{
	sroce_segs_unhold(seg, nseg);
	while (nseg--)
		sroce_region_put(seg[nseg].region);
}

/**
 * sroce_names_get() - look segments up again
 * @keys: key table of the device
 * @name: what they are called
 * @nname: how many
 * @seg: filled in
 * @max: room in @seg
 *
 * Context: softirq or bottom halves off.
 * Return: the number of segments, to be given back with sroce_segs_put(); or,
 * with nothing held, what sroce_region_get() says, or -EMSGSIZE when @seg is
 * too small.
 */
int sroce_names_get(struct sroce_keys *keys, const struct sroce_name *name,
		    unsigned int nname, struct sroce_seg *seg, unsigned int max)
{
	unsigned int n;

	if (nname > max)
		return -EMSGSIZE;

	for (n = 0; n < nname; n++, name++) {
		struct sroce_region *region;

		region = sroce_region_get(keys, name->key, name->pd,
					  name->access, name->iova, name->len);
		if (IS_ERR(region)) {
			sroce_segs_put(seg, n);
			return PTR_ERR(region);
		}

		seg[n] = (struct sroce_seg){
			.region	= region,
			.iova	= name->iova,
			.len	= name->len,
		};
	}

	return n;
}

/* The region that the memory of a segment is in, and where in it. */
static struct sroce_region *seg_source(const struct sroce_seg *seg, u64 *at)
{
	struct sroce_region *region = seg->region;

	*at = seg->iova - region->iova;
	if (!region->parent)
		return region;

	*at += region->parent_iova - region->parent->iova;

	return region->parent;
}

static bool seg_is_iomem(const struct sroce_seg *seg)
{
	u64 at;

	return seg_source(seg, &at)->iomem;
}

/**
 * sroce_segs_hold() - keep memory where it is, for a copy
 * @seg: segments
 * @nseg: how many
 * @write: they are to be written to
 * @missing: filled in when something is
 *
 * Whatever has a page table of its own, others may take memory from at any
 * time but while it is held.
 *
 * Context: softirq or bottom halves off, until sroce_segs_unhold() or
 * sroce_segs_put().
 * Return: 0; or -EAGAIN with nothing held, and a reference in @missing.
 */
int sroce_segs_hold(struct sroce_seg *seg, unsigned int nseg, bool write,
		    struct sroce_missing *missing)
{
	unsigned int i;

	for (i = 0; i < nseg; i++) {
		struct sroce_region *region;
		int held;
		u64 at;

		region = seg_source(seg + i, &at);
		if (!region->ops->hold)
			continue;

		held = region->ops->hold(region, at, seg[i].len, write);
		if (held < 0) {
			sroce_segs_unhold(seg, i);
			refcount_inc(&region->users);
			*missing = (struct sroce_missing){
				.region	= region,
				.at	= at,
				.len	= seg[i].len,
				.more	= seg[i].more,
				.write	= write,
			};
			return held;
		}
		seg[i].held = held;
	}

	return 0;
}

/**
 * sroce_segs_unhold() - let go of what sroce_segs_hold() holds
 * @seg: segments; held or not
 * @nseg: how many
 *
 * Context: as sroce_segs_hold(); any, if nothing is held.
 */
void sroce_segs_unhold(struct sroce_seg *seg, unsigned int nseg)
{
	for (; nseg--; seg++) {
		struct sroce_region *region;
		u64 at;

		if (!seg->held)
			continue;

		region = seg_source(seg, &at);
		region->ops->unhold(region, seg->held);
		seg->held = 0;
	}
}

/**
 * sroce_payload_put() - give back what a payload holds
 * @payload: of any kind; has no bytes afterwards
 *
 * Only segments are held: a buffer is the sender's, an skb the mail's.
 *
 * Context: as sroce_region_put().
 */
void sroce_payload_put(struct sroce_payload *payload)
{
	if (payload->kind == SROCE_PAYLOAD_SEGS)
		sroce_segs_put(payload->seg, payload->nseg);

	payload->kind = SROCE_PAYLOAD_NONE;
	payload->len = 0;
}

/**
 * sroce_seg_word() - the word that an atomic operation is about
 * @seg: segment of 8 bytes, held
 *
 * Context: any.
 * Return: kernel virtual address, or NULL if the CPU couldn't access it as one:
 * it isn't aligned, or it is in a device.
 */
u64 *sroce_seg_word(const struct sroce_seg *seg)
{
	u64 contig = sizeof(u64);
	void *addr;

	if (seg_is_iomem(seg))
		return NULL;

	addr = sroce_region_addr(seg->region, seg->iova, &contig);

	return IS_ALIGNED((uintptr_t)addr, sizeof(u64)) ? addr : NULL;
}

/* A place in a list of segments, and the piece of memory there. */
struct cursor {
	const struct sroce_seg	*seg;
	const struct sroce_seg	*end;
	u32			off;
	u32			left;
	void			*piece;
};

static void cursor_init(struct cursor *c, const struct sroce_seg *seg,
			unsigned int nseg, u32 skip)
{
	c->seg = seg;
	c->end = seg + nseg;
	c->off = skip;
	c->left = 0;
	while (c->seg < c->end && c->off >= c->seg->len)
		c->off -= c->seg++->len;
}

/* The bytes from here on that lie one after the other; NULL at the end. */
static void *cursor_piece(struct cursor *c, u32 *len)
{
	u64 contig;

	/* Not reached if every length was checked; never a wild copy. */
	if (WARN_ON_ONCE(c->seg == c->end))
		return NULL;

	/* The other end's pieces may be shorter. */
	if (!c->left) {
		contig = c->seg->len - c->off;
		c->piece = sroce_region_addr(c->seg->region,
					     c->seg->iova + c->off, &contig);
		c->left = contig;
	}
	*len = c->left;

	return c->piece;
}

static void cursor_advance(struct cursor *c, u32 len)
{
	c->piece += len;
	c->left -= len;
	c->off += len;
	if (c->off == c->seg->len) {
		c->off = 0;
		c->seg++;
	}
}

static bool cursor_is_iomem(const struct cursor *c)
{
	return seg_is_iomem(c->seg);
}

/* The memory of a device: through a few bytes of ours at a time. */
#define BOUNCE	256

static void piece_read(void *to, const void *piece, u32 len, bool iomem)
{
	if (unlikely(iomem))
		memcpy_fromio(to, (const void __iomem __force *)piece, len);
	else
		memcpy(to, piece, len);
}

static void piece_write(void *piece, const void *from, u32 len, bool iomem)
{
	if (unlikely(iomem)) {
		memcpy_toio((void __iomem __force *)piece, from, len);
		wmb();	/* a completion tells that it has been written */
	} else {
		memcpy(piece, from, len);
	}
}

static noinline_for_stack u32 piece_copy(struct cursor *to, void *dst,
					 const struct cursor *from,
					 const void *src, u32 len)
{
	u8 bounce[BOUNCE];

	len = min_t(u32, len, BOUNCE);
	piece_read(bounce, src, len, cursor_is_iomem(from));
	piece_write(dst, bounce, len, cursor_is_iomem(to));

	return len;
}

static void skb_read(const struct sk_buff *skb, unsigned int off, void *to,
		     u32 len)
{
	/* Stale bytes of the kernel's must not pass for received ones. */
	if (WARN_ON_ONCE(skb_copy_bits(skb, off, to, len)))
		memset(to, 0, len);
}

/**
 * sroce_payload_is_lasting() - may its pages be referenced?
 * @payload: of any kind, held
 *
 * Context: any.
 * Return: true if all of it is in pages that stay what they are for as long as
 * there is a reference to them, whatever becomes of the region.
 */
bool sroce_payload_is_lasting(const struct sroce_payload *payload)
{
	unsigned int i;
	u64 at;

	if (payload->kind != SROCE_PAYLOAD_SEGS)
		return false;

	for (i = 0; i < payload->nseg; i++)
		if (!seg_source(payload->seg + i, &at)->ops->lasting)
			return false;

	return true;
}

/**
 * sroce_payload_piece() - where bytes of a payload are
 * @from: payload of segments, held
 * @off: first byte
 * @len: set to the number of bytes from there on that lie one after the other
 *
 * Context: any.
 * Return: kernel virtual address of the first byte.
 */
void *sroce_payload_piece(const struct sroce_payload *from, u32 off, u32 *len)
{
	struct cursor c;

	cursor_init(&c, from->seg, from->nseg, off);

	return cursor_piece(&c, len);
}

static void segs_read(struct cursor *from, void *to, u32 len)
{
	while (len) {
		const void *piece;
		u32 n;

		piece = cursor_piece(from, &n);
		if (!piece) {
			memset(to, 0, len);
			return;
		}

		n = min(n, len);
		piece_read(to, piece, n, cursor_is_iomem(from));
		cursor_advance(from, n);
		to += n;
		len -= n;
	}
}

/**
 * sroce_payload_read() - copy from a payload to one piece of kernel memory
 * @from: payload, held
 * @off: first byte of @from
 * @to: kernel memory
 * @len: bytes; @off + @len is within @from
 *
 * Context: any.
 */
void sroce_payload_read(const struct sroce_payload *from, u32 off,
			void *to, u32 len)
{
	struct cursor c;

	switch (from->kind) {
	case SROCE_PAYLOAD_NONE:
		break;
	case SROCE_PAYLOAD_SEGS:
		cursor_init(&c, from->seg, from->nseg, off);
		segs_read(&c, to, len);
		break;
	case SROCE_PAYLOAD_BUF:
		memcpy(to, from->buf + off, len);
		break;
	case SROCE_PAYLOAD_NAMES:
		/* Who copies has looked them up. */
		if (WARN_ON_ONCE(len))
			memset(to, 0, len);
		break;
	case SROCE_PAYLOAD_SKB:
		skb_read(from->skb, from->skb_off + off, to, len);
		break;
	}
}

/* Same host: both ends are segments, the pieces of either end where they do. */
static void segs_write(struct cursor *from, struct cursor *to, u32 len)
{
	while (len) {
		const void *src;
		void *dst;
		u32 n, m;

		src = cursor_piece(from, &n);
		dst = cursor_piece(to, &m);
		if (!src || !dst)
			return;

		n = min3(n, m, len);
		if (unlikely(cursor_is_iomem(from) || cursor_is_iomem(to)))
			n = piece_copy(to, dst, from, src, n);
		else
			/* A process may well send to what it sends from. */
			memmove(dst, src, n);
		cursor_advance(from, n);
		cursor_advance(to, n);
		len -= n;
	}
}

static noinline_for_stack u32
payload_write_iomem(const struct sroce_payload *from, u32 off, void *piece,
		    u32 len)
{
	u8 bounce[BOUNCE];

	len = min_t(u32, len, BOUNCE);
	sroce_payload_read(from, off, bounce, len);
	piece_write(piece, bounce, len, true);

	return len;
}

/**
 * sroce_payload_write() - copy all of a payload to segments
 * @from: payload, held
 * @to: segments, held for writing; together at least as long as @from
 * @nto: how many
 *
 * Within a payload bytes are written in order; if source and destination
 * overlap, the result is unspecified, as it is with a NIC.
 *
 * Context: any.
 */
void sroce_payload_write(const struct sroce_payload *from,
			 const struct sroce_seg *to, unsigned int nto)
{
	struct cursor src, dst;
	u32 off, n;
	void *piece;

	cursor_init(&dst, to, nto, 0);

	if (from->kind == SROCE_PAYLOAD_SEGS) {
		cursor_init(&src, from->seg, from->nseg, 0);
		segs_write(&src, &dst, from->len);
		sroce_segs_persist(to, nto, from->len);
		return;
	}

	for (off = 0; off < from->len; off += n) {
		piece = cursor_piece(&dst, &n);
		if (!piece)
			return;

		n = min(n, from->len - off);
		if (unlikely(cursor_is_iomem(&dst)))
			n = payload_write_iomem(from, off, piece, n);
		else
			sroce_payload_read(from, off, piece, n);
		cursor_advance(&dst, n);
	}
	sroce_segs_persist(to, nto, from->len);
}
