"""What is done at certain moments of a run."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import torch
from transformers import TrainerCallback
from transformers.trainer_utils import SaveStrategy

from .distributed import process_count, sum_over_processes
from .resuming import set_checkpoints_aside

logger = logging.getLogger(__name__)

WORTH_SAVING = 60  # seconds of training, when it is interrupted
SAVED_EVERY = 300  # seconds of training: what a run that is killed loses at most


class SetOldCheckpointsAside(TrainerCallback):
    """Sets aside what other runs have left in the output folder, of steps after ``after``, before the first step."""

    after = -1

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        with args.main_process_first(local=args.save_on_each_node, desc="setting old checkpoints aside"):
            aside = set_checkpoints_aside(args.output_dir, self.after) if args.should_save else None
        if aside is not None:
            logger.warning("Older checkpoints are in %s now; the next run that finds some deletes them.", aside)


class LoseLittle(TrainerCallback):
    """Saves after five minutes without a checkpoint, unless ``save_strategy`` is ``"no"``; and stops at Ctrl-C.

    At Ctrl-C the current step finishes, and is saved if more than a minute would be lost. The second stops at once.
    """

    def __init__(self) -> None:
        self._is_training, self._is_asked, self._saved_at = False, False, 0.0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch for Ctrl-C, in the main thread of a process that listens to it; a worker leaves it to its parent."""
        before, process = signal.getsignal(signal.SIGINT), os.getpid()
        self._is_training = self._is_asked = False
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            if os.getpid() != process:
                return
            if self._is_asked or not self._is_training:
                before(number, frame)
            self._is_asked = True
            os.write(2, b"\nStopping after this step. Ctrl-C again stops at once.\n")

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self._is_training, self._saved_at = True, time.monotonic()

    def on_step_end(self, args, state, control, **kwargs) -> None:
        at_risk = time.monotonic() - self._saved_at
        must_save = at_risk > (WORTH_SAVING if self._is_asked else SAVED_EVERY)
        asked = torch.tensor([self._is_asked, must_save], dtype=torch.float32)
        if process_count() > 1:  # all of them save and stop, or none
            asked = sum_over_processes(asked.to(args.device))
        self._is_asked, must_save = (asked > 0).tolist()
        if must_save and args.save_strategy != SaveStrategy.NO:
            control.should_save = control.should_log = True
        if self._is_asked and not control.should_save:
            raise KeyboardInterrupt

    def on_save(self, args, state, control, **kwargs) -> None:
        self._saved_at = time.monotonic()
        if self._is_asked:
            raise KeyboardInterrupt
