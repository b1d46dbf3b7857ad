#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs rdma-core's own tests (python3-pyverbs) and prints TAP, a line per test.

pyverbs_run.py [--dev NAME] [--gid INDEX] [--tests DIR] [--skips FILE]
               [--limit SECONDS] [--label TEXT] [--list] [PATTERN...]

A PATTERN picks tests: MODULE, MODULE.CLASS, MODULE.CLASS.test, or with wildcards.
Each module runs in a process of its own, forked from one that has done all the
imports. When that process dies or hangs, the test that ran then has failed, and a
new process goes on with the next one. What happens after a module's last test is
nobody's: pyverbs of rdma-core 56 may crash when it drops what a skipped test had
half built.

FILE names the tests that are expected to skip, a PATTERN per line, each with the
reason behind a '#'. Another one that skips has failed. Without FILE, any may skip.
"""

import argparse
import fnmatch
import json
import os
import random
import select
import signal
import sys
import time
import traceback
import types
import unittest

VENDORS = ("test_mlx5_", "test_mlx4_", "test_efa", "test_irdma", "test_hns", "test_mana")


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--dev")
    p.add_argument("--gid", default="0")
    p.add_argument("--tests", default="/usr/share/rdma-core/tests")
    p.add_argument("--skips")
    p.add_argument("--limit", type=float, default=60, help="seconds for one module")
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--label", default="", help="goes before the names of tests")
    p.add_argument("--list", action="store_true")
    p.add_argument("patterns", nargs="*")
    return p.parse_args()


def matches(name, pattern):
    return fnmatch.fnmatchcase(name, pattern) or name.startswith(pattern + ".")


def expected_skips(path):
    """A list of (pattern, reason)."""
    skips = []
    if path:
        with open(path, encoding="utf-8") as f:
            for line in f:
                pattern, _, reason = line.partition("#")
                if pattern.strip():
                    skips.append((pattern.strip(), reason.strip()))
    return skips


def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t


def short(test):
    """Class and function, behind the name of the module: test_mr.MRTest.test_reg_mr"""
    return test.id().removeprefix("tests.")


def load(opt):
    """The generic modules' tests: {module: [test, ...]}, {module: why not}."""
    # The package's own __init__ would import every vendor's tests.
    package = types.ModuleType("tests")
    package.__path__ = [opt.tests]
    sys.modules["tests"] = package
    sys.path.insert(0, opt.tests)
    import args_parser  # pylint: disable=import-error
    sys.argv = ["tests", "--gid", opt.gid] + (["--dev", opt.dev] if opt.dev else [])
    args_parser.parser.parse_args()

    modules, broken = {}, {}
    loader = unittest.TestLoader()
    for fn in sorted(os.listdir(opt.tests)):
        name = fn.removesuffix(".py")
        if not fn.startswith("test_") or name == fn or name.startswith(VENDORS):
            continue
        if opt.patterns and not any(p.split(".")[0] == name or
                                    fnmatch.fnmatchcase(name, p.split(".")[0])
                                    for p in opt.patterns):
            continue
        try:
            module = __import__("tests." + name, fromlist=[name])
        except Exception:  # pylint: disable=broad-except
            broken[name] = traceback.format_exc()
            continue
        tests = [t for t in flat(loader.loadTestsFromModule(module))
                 if not opt.patterns or any(matches(short(t), p) for p in opt.patterns)]
        if tests:
            modules[name] = tests
    return modules, broken


class Reporter(unittest.TestResult):
    """Tells the parent process what starts and how it ended."""

    def __init__(self, fd):
        super().__init__()
        self.fd = fd
        self.worst = None

    def tell(self, what, test, text=""):
        line = json.dumps([what, short(test), text]) + "\n"
        os.write(self.fd, line.encode())

    def found(self, what, test, text=""):
        if not isinstance(test, unittest.TestCase):
            # Not a test: what all the tests of a class or a module need.
            self.tell("class " + what, test, text)
        elif self.worst is None or what == "failed":
            self.worst = (what, text)

    def startTest(self, test):
        super().startTest(test)
        self.worst = None
        self.tell("start", test)

    def stopTest(self, test):
        super().stopTest(test)
        what, text = self.worst or ("passed", "")
        self.tell(what, test, text)

    def addError(self, test, err):
        self.found("failed", test, "".join(traceback.format_exception(*err)))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err:
            self.addError(test, err)

    def addSkip(self, test, reason):
        self.found("skipped", test, reason)

    def addUnexpectedSuccess(self, test):
        self.found("failed", test, "passed, but upstream expects a failure")


class Child:
    """A process that runs some tests of a module."""

    def __init__(self, tests, seed):
        self.out = os.memfd_create("output")
        r, w = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(r)
            self.run(tests, seed, w)
        os.close(w)
        self.fd = r
        self.buf = b""

    def run(self, tests, seed, fd):
        os.setsid()
        os.set_inheritable(fd, False)
        os.dup2(self.out, 1)
        os.dup2(self.out, 2)
        random.seed(seed)
        try:
            unittest.TestSuite(tests).run(Reporter(fd))
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)

    def events(self, until):
        """Yields [what, test, text]; ends when the process does or time is over."""
        ended = False
        while not ended:
            left = until - time.monotonic()
            if left <= 0:
                break
            ready = select.select([self.fd], [], [], min(left, 0.5))[0]
            # Processes that a test left behind may hold the pipe open.
            ended = not ready and os.waitid(
                os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            if ready:
                data = os.read(self.fd, 65536)
                ended = not data
                self.buf += data
            while b"\n" in self.buf:
                line, self.buf = self.buf.split(b"\n", 1)
                yield json.loads(line)

    def end(self, late):
        """What it died of, or None."""
        if late:
            os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(self.fd)
        if late:
            return "took too long"
        if os.WIFSIGNALED(status):
            return "died: " + signal.Signals(os.WTERMSIG(status)).name
        return f"ended with {os.WEXITSTATUS(status)}" if status else None

    def output(self):
        return os.pread(self.out, 1 << 16, 0).decode(errors="replace")


class Tap:
    """Prints results and counts them."""

    def __init__(self, skips, strict, label):
        self.n = self.failed = 0
        self.label = label
        self.skips = skips
        self.strict = strict

    def listed(self, name):
        for pattern, reason in self.skips:
            if matches(name, pattern):
                return reason
        return None

    def line(self, good, name, tail=""):
        self.n += 1
        self.failed += not good
        tail = " ".join(tail.split())
        print(f"{'ok' if good else 'not ok'} {self.n} {self.label}{name}"
              f"{tail and ' # ' + tail}", flush=True)

    @staticmethod
    def diag(text, most=40):
        for line in text.strip().splitlines()[-most:]:
            print("#   " + line)

    def result(self, what, name, text, took):
        listed = self.listed(name)
        if what == "passed":
            if listed is not None:
                print(f"# {name} is listed as a skip, and passes")
            self.line(True, name, f"{took:.1f} s")
        elif what == "skipped" and (listed is not None or not self.strict):
            self.line(True, name, f"SKIP {listed or text}")
        elif what == "skipped":
            print(f"# skipped, and not listed: {text}")
            self.line(False, name)
        else:
            self.diag(text)
            self.line(False, name)


def run_module(tests, opt, tap):
    until = time.monotonic() + opt.limit
    hung = 0
    waiting = {short(t): t for t in tests}
    while waiting:
        child = Child(list(waiting.values()), opt.seed)
        running, since, tried = None, time.monotonic(), len(waiting)
        for what, name, text in child.events(until):
            if what == "start":
                running, since = name, time.monotonic()
            elif what.startswith("class "):
                # "setUpClass (test_x.Class)"
                where = name.partition("(")[2].rstrip(")").removeprefix("tests.")
                for n in [n for n in waiting if n.startswith(where + ".")]:
                    del waiting[n]
                    tap.result(what.removeprefix("class "), n, text, 0)
            else:
                running = None
                waiting.pop(name, None)
                if what == "failed":
                    text = child.output()[-3000:] + "\n" + text
                tap.result(what, name, text, time.monotonic() - since)
        late = time.monotonic() >= until and bool(waiting)
        why = child.end(late)
        output = child.output()[-3000:]
        os.close(child.out)
        if running:
            waiting.pop(running, None)
            tap.result("failed", running, f"{output}\n{why}", 0)
        if late:
            # Once more from the next test on.
            hung += 1
            until = time.monotonic() + opt.limit
        # A process that gets nowhere, and a module that hangs again, are given up.
        if hung > 1 or len(waiting) == tried or (waiting and not why):
            for n in waiting:
                tap.result("failed", n, f"{output}\nwas not run: {why}", 0)
            return


def main():
    opt = options()
    if not os.path.isdir(opt.tests):
        print(f"1..0 # SKIP no {opt.tests}")
        return 4
    # What the imports say goes where it does not disturb.
    modules, broken = load(opt)
    if opt.list:
        for tests in modules.values():
            print("\n".join(short(t) for t in tests))
        return 0
    tap = Tap(expected_skips(opt.skips), bool(opt.skips), opt.label)
    print("TAP version 13")
    print(f"# seed {opt.seed}")
    for name, text in broken.items():
        tap.diag(text)
        tap.line(False, name + ".import")
    start = time.monotonic()
    for name, tests in modules.items():
        t = time.monotonic()
        run_module(tests, opt, tap)
        print(f"# {name}: {time.monotonic() - t:.1f} s")
    print(f"1..{tap.n}")
    print(f"# {tap.failed} of {tap.n} failed, {time.monotonic() - start:.0f} s")
    return 1 if tap.failed or not tap.n else 0


if __name__ == "__main__":
    sys.exit(main())
