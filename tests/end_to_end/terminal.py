"""Runs scripts in a real terminal (a pty), forked as in ``forked.py``, with keys and SIGKILL."""

import fcntl
import multiprocessing
import os
import pkgutil
import pty
import runpy
import select
import signal
import struct
import sys
import termios
import time
from multiprocessing.process import BaseProcess

LONGEST = 60  # seconds
STOPPED = "it hangs here"


class Terminal:
    """A script in a terminal; ``stop_in`` names a function (``module:name``) in which it hangs."""

    def __init__(self, script, *arguments, stop_in=None, columns=80, rows=24):
        self.master, self._slave = pty.openpty()
        self.resize(columns, rows)
        self.output = ""
        self._read = b""
        command = [str(argument) for argument in (script, *arguments)]
        self.process: BaseProcess = multiprocessing.get_context("forkserver").Process(
            target=_run, args=(command, os.ttyname(self._slave), stop_in)
        )
        self.process.start()

    def wait_for(self, shown, after=0):
        """Read until something is shown, after a place in the output."""
        self.wait_until(lambda: shown in self.output[after:])

    def wait_until(self, is_so):
        """Read until a condition is true; fail with the end of the output if the process ends before."""
        deadline = time.monotonic() + LONGEST
        while not is_so():
            alive = self.process.is_alive()
            self._receive()
            if is_so():
                return
            assert alive and time.monotonic() < deadline, self.output[-4000:]

    def press(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, columns, rows):
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self):
        """Close the window; the process ends by SIGHUP."""
        os.close(self._slave)
        os.close(self.master)
        self.process.join(LONGEST)
        assert self.process.exitcode == -signal.SIGHUP

    def kill(self):
        self.process.kill()
        self.finish(-signal.SIGKILL)

    def finish(self, code=0):
        """Wait for the end, and give the output."""
        deadline = time.monotonic() + LONGEST
        while self.process.is_alive() and time.monotonic() < deadline:
            self._receive()
        self.process.kill()
        self.process.join()
        self._receive()
        assert self.process.exitcode == code, f"exit code {self.process.exitcode}: {self.output[-4000:]}"
        os.close(self.master)
        os.close(self._slave)
        return self.output

    def _receive(self):
        while select.select([self.master], [], [], 0.01)[0]:
            self._read += os.read(self.master, 65536)
        self.output = self._read.decode(errors="replace")


def _run(command, terminal, stop_in):
    os.setsid()
    opened = os.open(terminal, os.O_RDWR)  # the first that a session opens is its controlling terminal
    for stream in range(3):
        os.dup2(opened, stream)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", closefd=False, buffering=1)
    os.environ["TERM"] = "xterm-256color"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored
    if stop_in is not None:
        module, _, path = stop_in.partition(":")
        owner, _, name = path.rpartition(".")
        setattr(pkgutil.resolve_name(f"{module}:{owner}"), name, _hang)
    sys.argv = command
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        sys.stdout.flush()


def _hang(*arguments, **options):
    os.write(1, STOPPED.encode())  # stdout itself may be redirected
    time.sleep(LONGEST)
