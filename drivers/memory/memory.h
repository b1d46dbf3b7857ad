/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory registration: keys -> regions -> bytes.
 *
 * Knows nothing of QPs and packets.  Three things are offered to the floors
 * above: look a key up with the access that is wanted, turn an SGE list into
 * referenced segments, and copy between segments and a payload.
 */
#ifndef SROCE_MEMORY_H
#define SROCE_MEMORY_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

/* Regions that are found at once, a power of two. */
#define SROCE_KEYS_RECENT	256

/**
 * struct sroce_keys - the key table of a device
 * @regions: key index (24 bits) -> struct sroce_region
 * @next: where the cyclic allocation goes on, so that indices rest
 * @recent: those of @regions that were the last with these low bits of their
 *	    index: a table as large as all indices need is deep
 */
struct sroce_keys {
	struct xarray			regions;
	u32				next;
	struct sroce_region __rcu	*recent[SROCE_KEYS_RECENT];
};

struct sroce_dmabuf;
struct sroce_odp;
struct sroce_region;
struct workqueue_struct;

/* The longest region, in bytes; what the device reports as max_mr_size. */
#define SROCE_MAX_REGION	BIT_ULL(46)

/**
 * struct sroce_gate - lets those who take memory away wait for its users
 * @lock: one waits at a time
 * @turn: which of @users counts who comes now
 * @users: in the middle of an access
 *
 * A user enters, then looks whether the memory is there.  Who takes it away
 * marks it as gone, then waits until all have left that may not have seen it;
 * those who come meanwhile don't make the wait longer.
 */
struct sroce_gate {
	spinlock_t	lock;
	unsigned int	turn;
	atomic_t	users[2];
};

/**
 * struct sroce_region_ops - a source of memory
 * @kind: name, for people
 * @revocable: work requests change what the key stands for
 * @lasting: its memory is pages that a reference keeps, also when the region is
 *	     gone, and that nobody takes away meanwhile
 * @check: is there memory behind the range, which is within the region?  0 or
 *	   -ERANGE.  Any context.  NULL: all of the region is memory.
 * @addr: kernel virtual address of the byte that is @at bytes behind the
 *	  first; @contig says how many are wanted, and is set to how many of
 *	  them lie one after the other.  Held.  Any context.  NULL:
 *	  &sroce_region.table tells.
 * @hold: keep the range where it is until @unhold.  Bottom halves off, and so
 *	  until then, for a copy.  Returns a number above 0 that @unhold gets, or
 *	  -EAGAIN if memory of the range has to be made present first.  NULL: it
 *	  always is.
 * @unhold: see @hold
 * @fault: make @len bytes present, and if that costs little up to @more bytes
 *	   behind them, for writing if @write.  0 or -errno; that it succeeded
 *	   says nothing of a moment later.  Process context, sleeps.
 * @rereg: a region of the same memory in another PD or with other rights, to
 *	   take the place of @old; an ERR_PTR.  Process context, may sleep.
 *	   NULL: that can't be had.
 * @release: unpin and give back everything; called once, when no one can
 *	     reach the memory any more.  Process context, may sleep.
 */
struct sroce_region_ops {
	const char *kind;
	bool revocable;
	bool lasting;
	int (*check)(const struct sroce_region *region, u64 iova, u64 len);
	void *(*addr)(const struct sroce_region *region, u64 at, u64 *contig);
	int (*hold)(struct sroce_region *region, u64 at, u32 len, bool write);
	void (*unhold)(struct sroce_region *region, int held);
	int (*fault)(struct sroce_region *region, u64 at, u64 len, u64 more,
		     bool write);
	struct sroce_region *(*rereg)(struct ib_pd *pd,
				      const struct sroce_region *old,
				      int access);
	void (*release)(struct sroce_region *region);
};

/**
 * struct sroce_table - page table of a region: two levels, leaves of one page
 * @leaf: array of pointers to pages full of entries (kvcalloc'ed)
 * @nentries: entries that there is room for
 * @shift: log2 of the bytes that one entry maps
 *
 * An entry is the kernel virtual address of the block that it maps.
 */
struct sroce_table {
	unsigned long	**leaf;
	u64		nentries;
	u8		shift;
};

/* What an access through a key meets; see sroce_region_revoke(). */
enum sroce_region_state {
	SROCE_REGION_VALID,	/* memory */
	SROCE_REGION_FREE,	/* nothing: to be bound or registered yet */
	SROCE_REGION_DEAD,	/* nothing any more */
};

/**
 * struct sroce_region - registered memory
 * @key: lkey and rkey: index << 8 | variant
 * @access: enum ib_access_flags
 * @state: only when it is SROCE_REGION_VALID the rest means anything
 * @lock: serialises changes of @state, and of what may change meanwhile
 * @pd: protection domain, only ever compared
 * @iova: address of the first byte, as the user of a key sees it
 * @length: bytes
 * @offset: of the first byte within the first block of @table
 * @ops: where the memory comes from
 * @table: where the memory is
 * @users: 1 for the registration and 1 for each access under way; at 0 nothing
 *	   touches the memory, and @idle completes
 * @idle: see @users
 * @windows: memory windows that are bound to it; negative when it is going
 * @mm: accounted for pinning, or NULL
 * @start: of pinned memory: where @mm has it
 * @writable: taken for writing, hence dirty when released
 * @iomem: the memory is a device's, only for memcpy_fromio() and the like; it
 *	   changes while nobody holds it
 * @dmabuf: of a buffer of another driver
 * @borrowed: its memory is that of the region that it is to take the place of
 * @parent: of a window that is bound: the region that its memory is in
 * @parent_iova: address of its first byte there
 * @type: of a window
 * @owner: of a window of type 2: the QP it is bound to, see sroce_qp.tag
 * @staged: of a fast registered region: the table of the next registration
 * @nstaged: entries of it, 0 if there is none
 * @nmapped: entries of @table
 * @odp: of an on-demand region: the rest
 * @rcu: lookups are under RCU
 */
struct sroce_region {
	u32				key;
	int				access;
	enum sroce_region_state		state;
	spinlock_t			lock;
	const struct ib_pd		*pd;
	u64				iova;
	u64				length;
	u64				offset;
	const struct sroce_region_ops	*ops;
	struct sroce_table		table;
	refcount_t			users;
	struct completion		idle;
	atomic_t			windows;
	struct mm_struct		*mm;
	u64				start;
	bool				writable;
	bool				iomem;
	struct sroce_dmabuf		*dmabuf;
	bool				borrowed;
	struct sroce_region		*parent;
	u64				parent_iova;
	enum ib_mw_type			type;
	u64				owner;
	struct sroce_table		staged;
	u32				nstaged;
	u32				nmapped;
	struct sroce_odp		*odp;
	struct rcu_head			rcu;
};

/**
 * struct sroce_binding - what a key is to stand for, by work request
 * @iova: address of the first byte; of a window within @lkey's region
 * @length: bytes
 * @lkey: region that a window is to be bound to
 * @key: new key
 * @access: enum ib_access_flags
 */
struct sroce_binding {
	u64	iova;
	u64	length;
	u32	lkey;
	u32	key;
	int	access;
};

/**
 * struct sroce_seg - a referenced piece of a region: every check has been made
 * @region: referenced
 * @iova: first byte
 * @len: bytes
 * @more: bytes behind it that belong to the same SGE or range
 * @held: what &sroce_region_ops.hold gave, or 0
 */
struct sroce_seg {
	struct sroce_region	*region;
	u64			iova;
	u32			len;
	u32			more;
	int			held;
};

/**
 * struct sroce_name - what a segment was, to be looked up and checked again
 * @pd: protection domain; only compared
 * @iova: first byte
 * @key: of the region
 * @len: bytes
 * @access: enum ib_access_flags that the access needs
 */
struct sroce_name {
	const struct ib_pd	*pd;
	u64			iova;
	u32			key;
	u32			len;
	int			access;
};

/**
 * struct sroce_missing - memory that an access has to wait for
 * @region: that it is in, never a window; referenced
 * @at: first byte, counted from the first of @region
 * @len: bytes
 * @more: bytes behind them that the access may go on to
 * @write: it is to be written to
 */
struct sroce_missing {
	struct sroce_region	*region;
	u64			at;
	u32			len;
	u32			more;
	bool			write;
};

enum sroce_payload_kind {
	SROCE_PAYLOAD_NONE,	/* @len is 0 */
	SROCE_PAYLOAD_SEGS,	/* memory of this host */
	SROCE_PAYLOAD_NAMES,	/* the same, to be looked up: sroce_names_get() */
	SROCE_PAYLOAD_BUF,	/* inline data in kernel memory */
	SROCE_PAYLOAD_SKB,	/* bytes of a received packet */
};

/**
 * struct sroce_payload - where the bytes of a packet or slice are
 * @kind: what it is of
 * @len: bytes in all
 * @seg: segments
 * @nseg: how many
 * @name: what segments they would be
 * @nname: how many
 * @buf: kernel memory
 * @skb: packet
 * @skb_off: first byte within it
 *
 * A payload of segments owns one region reference per segment; the holder
 * gives them back with sroce_payload_put().
 */
struct sroce_payload {
	enum sroce_payload_kind	kind;
	u32			len;
	union {
		struct {
			struct sroce_seg	*seg;
			unsigned int		nseg;
		};
		struct {
			const struct sroce_name	*name;
			unsigned int		nname;
		};
		const void			*buf;
		struct {
			struct sk_buff		*skb;
			unsigned int		skb_off;
		};
	};
};

/* key.c */
void sroce_keys_init(struct sroce_keys *keys);
void sroce_keys_destroy(struct sroce_keys *keys);
struct sroce_region *sroce_region_alloc(const struct ib_pd *pd,
					const struct sroce_region_ops *ops,
					int access);
int sroce_region_publish(struct sroce_keys *keys, struct sroce_region *region);
int sroce_region_replace(struct sroce_keys *keys, struct sroce_region *old,
			 struct sroce_region *region);
void sroce_region_destroy(struct sroce_keys *keys, struct sroce_region *region);
struct sroce_region *sroce_region_get(struct sroce_keys *keys, u32 key,
				      const struct ib_pd *pd, int access,
				      u64 iova, u64 len);
struct sroce_region *sroce_region_get_remote(struct sroce_keys *keys, u32 key,
					     const struct ib_pd *pd, u64 owner,
					     int access, u64 iova, u64 len);
void sroce_region_put(struct sroce_region *region);
struct sroce_region *sroce_region_find(struct sroce_keys *keys, u32 key);
void sroce_region_revoke(struct sroce_region *region);
bool sroce_region_retire(struct sroce_region *region);
bool sroce_region_is_retired(const struct sroce_region *region);
bool sroce_region_replaced(struct sroce_keys *keys,
			   const struct sroce_region *region);

/* pin.c: pinned user memory */
struct sroce_region *sroce_region_pin(struct ib_pd *pd, u64 start, u64 length,
				      u64 iova, int access);

/* persist.c */
bool sroce_region_is_persistent(const struct sroce_region *region);
void sroce_segs_persist(const struct sroce_seg *seg, unsigned int nseg,
			u32 len);

/* phys.c: all of the kernel's memory, for kernel users */
struct sroce_region *sroce_region_phys(struct ib_pd *pd, int access);

/* odp.c: user memory that is not pinned */
/**
 * struct sroce_odp_stats - of an on-demand region
 * @shift: log2 of the bytes of a block
 * @present: blocks that are there
 * @tables: tables, each for 2 MiB of address space
 * @faults: blocks made present because they were accessed
 * @invalidations: blocks taken away
 * @prefetches: blocks made present by advice
 */
struct sroce_odp_stats {
	u8	shift;
	u64	present;
	u64	tables;
	u64	faults;
	u64	invalidations;
	u64	prefetches;
};

int sroce_odp_init(void);
void sroce_odp_exit(void);
struct sroce_region *sroce_region_odp(struct ib_pd *pd, u64 start, u64 length,
				      u64 iova, int access);
bool sroce_region_is_odp(const struct sroce_region *region);
int sroce_odp_prefetch(struct sroce_region *region, u64 iova, u64 length,
		       bool write, bool fault);
void sroce_odp_stats(const struct sroce_region *region,
		     struct sroce_odp_stats *stats);

/* prefetch.c */
int sroce_prefetch(struct sroce_keys *keys, const struct ib_pd *pd,
		   const struct ib_sge *sge, unsigned int nsge, bool write,
		   bool fault, struct workqueue_struct *later);

/* dmabuf.c: memory that other drivers have exported */
struct sroce_region *sroce_region_dmabuf(const struct ib_pd *pd, u64 offset,
					 u64 length, u64 iova, int fd,
					 int access);

/* window.c: memory windows */
struct sroce_region *sroce_region_window(const struct ib_pd *pd,
					 enum ib_mw_type type);
int sroce_window_bind(struct sroce_keys *keys, const struct ib_pd *pd,
		      u64 owner, u32 rkey, const struct sroce_binding *binding);
int sroce_key_invalidate(struct sroce_keys *keys, const struct ib_pd *pd,
			 u64 owner, u32 key, bool remote);
void sroce_windows_evict(struct sroce_keys *keys, struct sroce_region *region);

/* fastreg.c: memory of kernel users, registered by work requests */
struct sroce_region *sroce_region_fastreg(const struct ib_pd *pd, u32 npages);
bool sroce_region_is_fastreg(const struct sroce_region *region);
void sroce_fastreg_stage(struct sroce_region *region, u8 shift);
int sroce_fastreg_stage_page(struct sroce_region *region, u64 addr);
int sroce_fastreg_bind(struct sroce_keys *keys, const struct ib_pd *pd,
		       const struct sroce_binding *binding);

/* gate.c */
#ifdef CONFIG_PREEMPT_RT
void sroce_access_begin(void);
void sroce_access_end(void);
void sroce_users_wait(atomic_t *users, int rest);
#else
static inline void sroce_access_begin(void) {}
static inline void sroce_access_end(void) {}

/* They have bottom halves off: the wait is as that for a lock. */
static inline void sroce_users_wait(atomic_t *users, int rest)
{
	atomic_cond_read_acquire(users, VAL == rest);
}
#endif
void sroce_gate_init(struct sroce_gate *gate);
int sroce_gate_enter(struct sroce_gate *gate);
void sroce_gate_leave(struct sroce_gate *gate, int held);
void sroce_gate_wait(struct sroce_gate *gate);

/* table.c */
int sroce_table_alloc(struct sroce_table *table, u64 nentries, u8 shift);
void sroce_table_free(struct sroce_table *table);
int sroce_table_set(struct sroce_table *table, u64 index, unsigned long entry);
unsigned long sroce_table_get(const struct sroce_table *table, u64 index);
void sroce_table_coarsen(struct sroce_table *table, u64 *offset, u8 shift);
void *sroce_table_addr(const struct sroce_table *table, u64 pos, u64 *left);
void *sroce_region_addr(const struct sroce_region *region, u64 iova,
			u64 *contig);

/* parts.c */
#define SROCE_PART	(PAGE_SIZE / sizeof(unsigned long))	/* pages */

typedef u64 sroce_part_fn(struct sroce_region *region, u64 part);

int sroce_parts_init(void);
void sroce_parts_exit(void);
bool sroce_parts_shared(u64 nparts);
u64 sroce_parts_do(struct sroce_region *region, u64 first, u64 end,
		   sroce_part_fn *one, struct mm_struct *mm);

/* copy.c */
int sroce_segs_get(struct sroce_keys *keys, const struct ib_pd *pd, int access,
		   const struct ib_sge *sge, unsigned int nsge, u32 skip,
		   u32 len, struct sroce_seg *seg, unsigned int max);
void sroce_segs_put(struct sroce_seg *seg, unsigned int nseg);
int sroce_names_get(struct sroce_keys *keys, const struct sroce_name *name,
		    unsigned int nname, struct sroce_seg *seg,
		    unsigned int max);
int sroce_segs_hold(struct sroce_seg *seg, unsigned int nseg, bool write,
		    struct sroce_missing *missing);
void sroce_segs_unhold(struct sroce_seg *seg, unsigned int nseg);
u64 *sroce_seg_word(const struct sroce_seg *seg);
void sroce_payload_put(struct sroce_payload *payload);
bool sroce_payload_is_lasting(const struct sroce_payload *payload);
void *sroce_payload_piece(const struct sroce_payload *from, u32 off, u32 *len);
void sroce_payload_read(const struct sroce_payload *from, u32 off,
			void *to, u32 len);
void sroce_payload_write(const struct sroce_payload *from,
			 const struct sroce_seg *to, unsigned int nto);

#endif
