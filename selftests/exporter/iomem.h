/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTESTS_EXPORTER_IOMEM_H
#define SELFTESTS_EXPORTER_IOMEM_H

#include <linux/types.h>

/* Memory that passes for a device's; where it can, it is none for a CPU. */
int iomem_init(void);
void iomem_exit(void);
void __iomem *iomem_map(void *mem, size_t size);
void iomem_unmap(void __iomem *io);

#endif
