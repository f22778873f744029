"""What a training script does last, so that no process of it is left waiting."""

from __future__ import annotations

from transformers import Trainer


def end_run(trainer: Trainer) -> None:
    """Take the process group of a run down, in an order in which every process ends.

    A process group that is left standing may abort its process at the end. One that is taken down while DDP still holds
    it is destroyed with DDP, under Python's lock, and then joins a thread of its own that may be waiting for that lock:
    a process that never ends, seen with gloo and torch 2.13. So DDP goes first. The trainer cannot train after this.

    Args:
        trainer: The trainer, whose work is done.

    Example:

        >>> import tempfile
        >>> from torch import nn
        >>> from transformers import TrainingArguments
        >>> trainer = Trainer(nn.Linear(1, 1), TrainingArguments(tempfile.mkdtemp(), use_cpu=True, report_to="none"))
        >>> end_run(trainer)
    """
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    trainer.accelerator.end_training()
