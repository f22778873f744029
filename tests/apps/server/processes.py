"""The process and the token that tests of the server share with its benchmarks, and a process that starts faster."""

import signal
from pathlib import Path

from benchmarks.served import EDIT_TOKEN, ServerProcess

from ...end_to_end.forked import start_script

__all__ = ["EDIT_TOKEN", "ForkedServer", "ServerProcess"]
DOCSPLIT = Path(__file__).parents[2] / "end_to_end" / "docsplit.py"


class ForkedServer(ServerProcess):
    """A server in a process that is forked after the imports, which are most of the time of a start."""

    def start(self, arguments, environment):
        return ForkedProcess(start_script(DOCSPLIT, *arguments, log=self.log, **environment))


class ForkedProcess:
    """A forked process, with the methods of ``subprocess.Popen`` that a server needs."""

    def __init__(self, process):
        self.process = process

    def poll(self):
        return self.process.exitcode

    def send_signal(self, number):
        if number == signal.SIGKILL:
            self.process.kill()
        else:
            self.process.terminate()

    def wait(self, timeout=None):
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"The server did not end in {timeout} seconds."
        return self.process.exitcode
