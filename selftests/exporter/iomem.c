// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of a device.
 *
 * On x86 the memory of a device can be had like any other, and a test finds
 * nothing out.  User Mode Linux emulates it: there nothing but memcpy_fromio()
 * and the like works, and all else ends in a fault.
 */
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "iomem.h"

#ifdef CONFIG_INDIRECT_IOMEM
#include <linux/logic_iomem.h>

#define IOMEM_START	0x400000000000
#define IOMEM_SIZE	SZ_16M

/* Stays when the module goes: nothing else can be done with a region. */
static struct resource *res;

static DEFINE_MUTEX(map_lock);
static void *map_now;

static unsigned long iomem_read(void *priv, unsigned int offset, int size)
{
	unsigned long val = 0;

	memcpy(&val, priv + offset, size);

	return val;
}

static void iomem_write(void *priv, unsigned int offset, int size,
			unsigned long val)
{
	memcpy(priv + offset, &val, size);
}

static void iomem_copy_from(void *priv, void *buffer, unsigned int offset,
			    int size)
{
	memcpy(buffer, priv + offset, size);
}

static void iomem_copy_to(void *priv, unsigned int offset, const void *buffer,
			  int size)
{
	memcpy(priv + offset, buffer, size);
}

static const struct logic_iomem_ops iomem_ops = {
	.read		= iomem_read,
	.write		= iomem_write,
	.copy_from	= iomem_copy_from,
	.copy_to	= iomem_copy_to,
};

static long region_map(unsigned long offset, size_t size,
		       const struct logic_iomem_ops **ops, void **priv)
{
	*ops = &iomem_ops;
	*priv = map_now;

	return 0;
}

static const struct logic_iomem_region_ops region_ops = {
	.map = region_map,
};

int iomem_init(void)
{
	int err;

	res = kzalloc(sizeof(*res), GFP_KERNEL);
	if (!res)
		return -ENOMEM;

	res->name = "exporter";
	res->start = IOMEM_START;
	res->end = IOMEM_START + IOMEM_SIZE - 1;
	res->flags = IORESOURCE_MEM;
	err = logic_iomem_add_region(res, &region_ops);
	if (err)
		kfree(res);

	return err;
}

void iomem_exit(void)
{
	release_resource(res);
	/* Of no address: never to be looked at again. */
	res->start = 1;
	res->end = 0;
}

void __iomem *iomem_map(void *mem, size_t size)
{
	void __iomem *io;

	mutex_lock(&map_lock);
	map_now = mem;
	io = size <= IOMEM_SIZE ? ioremap(IOMEM_START, size) : NULL;
	mutex_unlock(&map_lock);

	return io;
}

void iomem_unmap(void __iomem *io)
{
	iounmap(io);
}
#else
int iomem_init(void)
{
	return 0;
}

void iomem_exit(void)
{
}

void __iomem *iomem_map(void *mem, size_t size)
{
	return (void __iomem __force *)mem;
}

void iomem_unmap(void __iomem *io)
{
}
#endif
