"""Runs scripts in processes forked from a server that has imported the libraries, which saves seconds each."""

from __future__ import annotations

import gc
import importlib.util
import multiprocessing
import os
import runpy
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

PRELOADED = [
    "docsplit_hf.pretraining.collator",
    "docsplit_hf.apps.cli.run_command",
    "docsplit_hf.pretraining.contrastive_trainer",
    "docsplit_hf.training.distributed",
    "docsplit_hf.fitting.ensemble.fit_experts",
    "docsplit_hf.apps.server.app",
    "faiss",
    "peft",
    "sklearn.decomposition",
    "sklearn.linear_model",
    "sklearn.metrics",
    "transformers.models.bert.modeling_bert",
]
LONGEST = 150  # seconds


def start_server(datasets_cache: Path) -> None:
    """Start the server, with a cache of data sets of its own."""
    missing = [name for name in PRELOADED if importlib.util.find_spec(name) is None]
    assert not missing, f"the server would ignore these without a message: {missing}"
    before = os.environ.get("HF_DATASETS_CACHE")
    os.environ["HF_DATASETS_CACHE"] = str(datasets_cache)
    forkserver.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    if before is None:
        del os.environ["HF_DATASETS_CACHE"]
    else:
        os.environ["HF_DATASETS_CACHE"] = before


def start_script(
    script: str | Path, *arguments: object, log: Path, folder: str | Path = ".", **environment: str
) -> BaseProcess:
    """Start a script like ``python script ...``, without the time of the imports and without atexit handlers.

    All scripts have the hash seed of the server: a test of independence from it needs a fresh Python.

    Args:
        script: The file.
        *arguments: Its command line.
        log: The file for its output and its log, appended to.
        folder: The working directory.
        **environment: Environment variables that differ from the server's.

    Returns:
        The process.
    """
    command = [str(argument) for argument in (script, *arguments)]
    workers = multiprocessing.get_start_method()
    process = multiprocessing.get_context("forkserver").Process(
        target=_run, args=(command, str(log), str(folder), workers, environment)
    )
    process.start()
    return process


def run_two_processes(script: str | Path, *arguments: object, log: Path, **environment: str) -> str:
    """Run a script in two processes that train together, like torch's launcher; returns their log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    ranks = [environment | shared | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    started = [start_script(script, *arguments, log=log, **rank) for rank in ranks]
    return [finish_script(process, log) for process in started][-1]


def finish_script(process: BaseProcess, log: Path, code: int = 0) -> str:
    """Wait for a script and return its log; fail with the log's end if the exit code differs."""
    process.join(LONGEST)
    process.kill()  # nothing, unless it takes too long
    process.join()
    printed = log.read_text()
    assert process.exitcode == code, f"exit code {process.exitcode}: {printed[-4000:]}"
    return printed


def kill_script(process: BaseProcess, ready: Callable[[], bool], log: Path) -> None:
    """Send SIGKILL to a script once ``ready()`` is true; fail with the log's end if the script ends before."""
    deadline = time.monotonic() + LONGEST
    while not (reached := ready()) and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.join()
    assert reached and process.exitcode < 0, f"exit code {process.exitcode}: {log.read_text()[-4000:]}"


def _run(command: list[str], log: str, folder: str, workers: str, environment: dict[str, str]) -> None:
    with open(log, "a") as file:  # a pipe would fill up and stop the process
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    gc.freeze()  # the libraries are no garbage, and a Trainer asks for a collection twice
    os.chdir(folder)
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored
    multiprocessing.set_start_method(workers, force=True)  # of its own workers, as it is for any other script
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
