// SPDX-License-Identifier: GPL-2.0-only
#include "paging.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs.h"

static int d_swapoff(void *p)
{
	(void)p;
	return sh("D=$(cat /tmp/odp.loop) && swapoff $D && losetup -d $D; R=$?; "
		  "rm -f /tmp/odp.swap /tmp/odp.loop; exit $R") ? EBUSY : 0;
}

bool swap_on(void)
{
	static char key;

	if (sh("modprobe -q loop; dd if=/dev/zero of=/tmp/odp.swap bs=1M count=64 2>/dev/null && "
	       "losetup -f --show /tmp/odp.swap >/tmp/odp.loop && "
	       "mkswap $(cat /tmp/odp.loop) >/dev/null && swapon $(cat /tmp/odp.loop)"))
		return false;
	t_defer(d_swapoff, &key, "swapoff");
	return true;
}

bool is_uml(void)
{
	return !sh("grep -q 'User Mode Linux' /proc/cpuinfo");
}

#define WORKERS "/sys/devices/virtual/workqueue/cpumask"

static void all_cpus(void)
{
	sh("cat /tmp/odp.cpumask >" WORKERS "; rm -f /tmp/odp.cpumask");
}

void one_cpu(void)
{
	if (!is_uml())
		return;
	pin(0);
	if (!sh("cat " WORKERS " >/tmp/odp.cpumask && echo 1 >" WORKERS))
		atexit(all_cpus);
}

void page_out(void *p, size_t len)
{
	int fd = open("/proc/sys/vm/compact_memory", O_WRONLY);

	/* compaction begins with that */
	if (fd >= 0) {
		CHECK(write(fd, "1", 1) == 1, "compact_memory: %s", strerror(errno));
		close(fd);
	}
	madvise(p, len, MADV_PAGEOUT);
}

static int d_ksm(void *p)
{
	(void)p;
	return sh("echo 2 >/sys/kernel/mm/ksm/run") ? EIO : 0;
}

bool ksm_on(void)
{
	static char key;

	if (access("/sys/kernel/mm/ksm/run", W_OK) ||
	    sh("cd /sys/kernel/mm/ksm && echo 10000 >pages_to_scan && "
	       "echo 10 >sleep_millisecs && { test ! -w smart_scan || echo 0 >smart_scan; } && "
	       "echo 1 >run"))
		return false;
	t_defer(d_ksm, &key, "ksm off");
	return true;
}

long ksm_value(const char *name)
{
	char path[128];
	long v = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/mm/ksm/%s", name);
	f = fopen(path, "r");
	if (f && fscanf(f, "%ld", &v) != 1)
		v = 0;
	if (f)
		fclose(f);
	return v;
}

long status_kb(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	size_t n = strlen(name);
	long kb = -1;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n))
			sscanf(line + n, ": %ld kB", &kb);
	if (f)
		fclose(f);
	return kb;
}
