/* SPDX-License-Identifier: GPL-2.0-only */
/* What makes the kernel move pages of a process; undone at the end of the case. */
#ifndef SELFTESTS_PAGING_H
#define SELFTESTS_PAGING_H

#include <stdbool.h>
#include <stddef.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* out with it, whichever CPU's list of pages to be looked at it is on */
void page_out(void *p, size_t len);
bool is_uml(void);
/*
 * User Mode Linux doesn't tell a CPU that a page isn't the process's any more while the
 * process runs there.  This sees to it that one CPU does all that may matter.
 */
void one_cpu(void);
bool swap_on(void);		/* to a file, through a loop device; false: can't be had */
bool ksm_on(void);		/* merge what is MADV_MERGEABLE, quickly */
long ksm_value(const char *name);
long status_kb(const char *name);	/* of /proc/self/status, -1 if it isn't there */

#endif
