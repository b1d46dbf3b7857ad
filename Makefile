# SPDX-License-Identifier: GPL-2.0-only
#
#   make                 builds sroce.ko for the running kernel (or KDIR=...)
#   make modules_install installs it; make clean removes what was built
#   make lib             builds lib/libsroce.so; make lib-install installs it (PREFIX=...)
#   make build-all       builds for Debian's three kernels (W=1 C=1)
#   make deb             builds Debian packages: the module for dkms, the library
#   make demo            shows the device at work, in a virtual machine
#   make test            runs the selftests in one (KERNEL=6.12 TESTS="name ...")
#   make test-debug      the same, in a kernel with KASAN, lockdep, kmemleak, ...
#   make test-hosts      runs traffic between two of them
#   make test-packages   builds, installs and purges the packages, in chroots
#   make bench           measures it beside rdma_rxe, siw and TCP (QUICK=1)
#   make check           style and static checks
#
# What is done to the sources lives in Kbuild; the rest of the work in scripts/.

KDIR	?= /lib/modules/$(shell uname -r)/build
KERNEL	?= 6.12

modules modules_install clean:
	$(MAKE) -C $(KDIR) M=$(CURDIR) $@

install: modules_install
	depmod -a

lib:
	$(MAKE) -C lib

lib-install:
	$(MAKE) -C lib install

build-all:
	scripts/build $(if $(W),W=$(W)) $(if $(C),C=$(C))

test:
	TESTS="$(TESTS)" scripts/test --kernel $(KERNEL)

test-debug:
	TESTS="$(TESTS)" scripts/test --kernel uml-debug

test-hosts:
	scripts/test-hosts --kernel $(KERNEL)

test-packages:
	scripts/test-packages

deb:
	scripts/deb

demo:
	scripts/demo

bench:
	scripts/bench $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(COMPARE),$(addprefix --compare ,$(COMPARE)))

check:
	scripts/check

.DEFAULT_GOAL := modules
.PHONY: modules modules_install install clean lib lib-install build-all test test-debug demo
.PHONY: test-hosts test-packages deb bench check
