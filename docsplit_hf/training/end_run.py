"""What a training script does last, so that no process of it is left waiting."""

from __future__ import annotations

from transformers import Trainer


def end_run(trainer: Trainer) -> None:
    """Take the process group of a run down, in an order in which every process ends; the trainer cannot train after it.

    A process group that is left standing may abort its process at the end. One that is taken down while DDP still holds
    it is destroyed with DDP, under Python's lock, and then joins a thread of its own that may be waiting for that lock:
    a process that never ends, seen with gloo and torch 2.13. So DDP goes first.
    """
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    trainer.accelerator.end_training()
