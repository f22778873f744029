"""BaseTrainer: the Trainer of transformers with logs of each part of the loss, safe checkpoints and exact resuming."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import safetensors.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import ProgressCallback, Trainer, TrainerCallback, TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, SaveStrategy, TrainOutput, rotate_checkpoints

from ..encoding.checkpoints.checkpoint import unsaved_weights
from ..encoding.compiled_layers import compile_layers, why_not_compiled
from ..storage.atomic_replacement import apply_umask_to_weights, replaced_at_once
from ..storage.inside_folder import refuse_links, write_file
from .arguments import STEPS_WORTH_COMPILING
from .checkpoint_folders import STATE_FILE, complete_checkpoints, set_checkpoints_aside
from .distributed import RunningMeans, in_fsdp_units, process_count, sum_over_processes
from .resuming import ARGUMENTS_FILE, check_same_run, checkpoint_to_resume, describe_run

logger = logging.getLogger(__name__)

SECONDS_WORTH_SAVING = 60  # of training, after which an interrupted run saves a checkpoint
SECONDS_BETWEEN_SAVES = 300  # of training, after which a run saves a checkpoint


class BaseTrainer(Trainer):
    """The Trainer for pretraining and fine-tuning. Its checkpoints have no pickle, and are resumed only if complete.

    ``compute_loss`` of a subclass adds measurements to ``self.means``; they are logged with the loss.
    """

    # Only this class uses private names of Trainer (transformers 5.23); subclasses override public methods. Trainer has
    # no public hook for the content of a checkpoint and its loading, for columns that the collator reads, for moving a
    # batch to the device, for a scheduler that the next run replaces, or for Accelerate's preparation.

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._resumed_step = -1
        self._interrupts = PeriodicAndInterruptSave(self)
        self.add_callback(self._interrupts)
        self._run_arguments: Mapping[str, Any] = {}  # as written to training_args.json
        self.means = RunningMeans()
        self.best_model_is_loaded = False  # stays False if the run is interrupted

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any) -> TrainOutput:
        """Train, from the start or from a checkpoint.

        Checkpoints of an older run in the output folder are set aside before the first step.

        Args:
            resume_from_checkpoint: The folder of a checkpoint to resume from. True or ``"last"``: the last complete
                one in the output folder. None: a new run.
            **kwargs: Passed to ``Trainer.train``.

        Returns:
            The output of ``Trainer.train``.

        Raises:
            ValueError: If there is no complete checkpoint to resume from, or it belongs to a run with other data,
                another model or other arguments.
            KeyboardInterrupt: At Ctrl-C, with a message about resuming.
        """
        checkpoint = checkpoint_to_resume(resume_from_checkpoint, self.args.output_dir)
        self._set_signature_columns_if_needed()
        model = self.accelerator.unwrap_model(self.model)
        described = describe_run(self.args, model, self.train_dataset, self._signature_columns)
        self._run_arguments = {**self.saved_arguments(), **described}
        self.best_model_is_loaded = False
        self._resumed_step = -1
        if checkpoint is not None:
            check_same_run(checkpoint, self._run_arguments)
            saved = Path(checkpoint, ARGUMENTS_FILE)
            if saved.is_file():
                self.use_choices_of(json.loads(saved.read_text(encoding="utf-8")))
            state = TrainerState.load_from_json(str(Path(checkpoint, STATE_FILE)))
            logger.info("Resuming from %s, step %d of %d.", checkpoint, state.global_step, state.max_steps)
            if Path(checkpoint).resolve().parent == Path(self.args.output_dir).resolve():
                self._resumed_step = state.global_step
        self.begin_training()
        with self._interrupts.handled():
            try:
                return super().train(resume_from_checkpoint=checkpoint, **kwargs)
            except KeyboardInterrupt as interrupt:
                for callback in self.callback_handler.callbacks:
                    if isinstance(callback, ProgressCallback) and callback.training_bar is not None:
                        callback.training_bar.close()  # an open bar would be drawn again after the last message
                raise KeyboardInterrupt(self._how_to_resume()) from interrupt
            finally:
                self.is_in_train = False  # so that the model of an interrupted run is saved as a whole

    def saved_arguments(self) -> Mapping[str, Any]:
        """The arguments of the run, as written to ``training_args.json``."""
        return self.args.to_dict()

    def get_eval_dataloader(self, eval_dataset: str | Dataset | None = None) -> DataLoader:
        """The batches of an evaluation, whose workers end with it."""
        # The Trainer would use a loader with workers that stay for every later data set, too.
        with temporarily(self.args, "dataloader_persistent_workers", False):
            return super().get_eval_dataloader(eval_dataset)

    def collator_columns(self) -> list[str] | None:
        """The columns that the collator reads; None: the columns that the model reads."""

    def model_to_save(self) -> nn.Module:
        """The model to save, which a subclass may replace."""
        return self.model

    def save_beside_weights(self, staging_folder: Path, final_path: Path) -> None:
        """Write further files into a staging folder that has the weights already and is moved to ``final_path``."""

    def save_card(self, staging_folder: Path, final_path: Path) -> None:
        """Write the model card; arguments as in ``save_beside_weights``."""

    def create_model_card(self, **kwargs: Any) -> None:
        """Write the model card of the run. Called by ``push_to_hub``."""
        if self.is_world_process_zero():
            self.save_card(Path(self.args.output_dir), Path(self.args.output_dir))

    def replaced(self, place: Path) -> contextlib.AbstractContextManager[Path]:
        """A context that yields a folder to write to; at its end, these files atomically replace those in ``place``."""
        return replaced_at_once(place)

    def use_choices_of(self, saved_arguments: Mapping[str, Any]) -> None:
        """Take over what the run that is resumed has chosen by itself, from its ``training_args.json``."""

    def record_choice(self, name: str, value: Any) -> None:
        """Save a value that the run has chosen by itself with its next checkpoints, in ``training_args.json``."""
        self._run_arguments = {**self._run_arguments, name: value}

    def encoders_to_compile(self) -> list[nn.Module]:
        """The modules with layers that run in each training step."""
        return [self.model]

    def begin_training(self) -> None:
        """Prepare a run; ``train`` calls it before the first step of new and of resumed runs."""

    def before_first_step(self) -> None:
        """Move checkpoints left by a previous run, of steps above the resumed one; compile layers as the options say.

        With ``compile_layers="auto"`` they are compiled if it pays.
        """
        args = self.args
        with args.main_process_first(local=args.save_on_each_node, desc="setting old checkpoints aside"):
            aside = set_checkpoints_aside(args.output_dir, self._resumed_step) if args.should_save else None
        if aside is not None:
            logger.warning("Older checkpoints were moved to %s, which the next run may delete.", aside)
        if args.compile_layers == "off" or args.torch_compile:
            return
        for encoder in self.encoders_to_compile():
            if args.compile_layers == "auto":
                if self.state.max_steps - self.state.global_step <= STEPS_WORTH_COMPILING:
                    continue
                reason = why_not_compiled(encoder, args.device)
                if reason is not None:
                    logger.info("The layers are not compiled: %s.", reason)
                    continue
            count = compile_layers(encoder)
            logger.info(
                "The %d layers of %s are compiled at the first batch (not with --compile_layers off).",
                count,
                type(encoder).__name__,
            )

    def modules_to_resume(self) -> dict[str, nn.Module]:
        """Modules that are needed for resuming in addition to the saved model, by the name of their file."""
        return {}

    def move_to_device(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Move a batch to the device of the model."""
        return self._prepare_inputs(inputs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log values, together with the means of the measurements since the last log."""
        means = self.means.pop()
        for name in list(logs):
            # Add the means only to step and evaluation logs. Skip train_loss (whole run) and log_loss (a metric).
            is_loss = name == "loss" or name.endswith("_loss")
            if is_loss and name != "train_loss" and not name.endswith("log_loss"):
                prefix = name.removesuffix("loss")
                logs |= {f"{prefix}{measured}": value for measured, value in means.items()}
        super().log(logs, start_time)

    def _how_to_resume(self) -> str:
        """The message at Ctrl-C."""
        advice = "There is no checkpoint to resume from."
        saved = complete_checkpoints(self.args.output_dir)
        if saved:
            advice = f"Resume from {saved[-1]} with the same command and --resume_from_checkpoint last."
        return f"Stopped at step {self.state.global_step} of {self.state.max_steps}. {advice}"

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = self.collator_columns()
        super()._set_signature_columns_if_needed()

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> tuple[nn.Module, DataLoader]:
        plugin = self.accelerator.state.fsdp_plugin if self.is_fsdp_enabled else None
        with in_fsdp_units(self.model, plugin) if plugin else contextlib.nullcontext():
            return super()._prepare_for_training(*args, **kwargs)

    def _run_epoch(self, **kwargs: Any) -> None:
        # Resumed within its last epoch with no step left, the Trainer would do one more: it counts after a step.
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        super()._run_epoch(**kwargs)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        # Tied weights are saved once, and some weights are not saved; the Trainer would report their names as missing.
        expected = {*self.model.all_tied_weights_keys, *unsaved_weights(self.model)}
        missing = [name for name in load_result.missing_keys if name not in expected]
        super()._issue_warnings_after_load(type(load_result)(missing, load_result.unexpected_keys))

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        if not self.args.should_save:
            super()._save(output_dir, state_dict)
            return
        place = Path(output_dir or self.args.output_dir)
        saved = self.model_to_save()
        if saved is not self.model:
            state_dict = None
        if state_dict is not None:  # gathered from shards, which repeat tied weights
            state_dict = {name: state_dict[name] for name in state_dict if name not in self.model.all_tied_weights_keys}
        # A checkpoint is complete once the Trainer has written its state, the last file.
        with (
            contextlib.nullcontext(place) if self.is_in_train else self.replaced(place) as folder,
            temporarily(self, "model", saved),
        ):
            super()._save(str(folder), state_dict)
            # The Trainer has pickled its arguments. Checkpoints may be shared, so the pickle is deleted.
            (folder / "training_args.bin").unlink(missing_ok=True)
            arguments = self._run_arguments if self.is_in_train else self.saved_arguments()
            write_file(folder / ARGUMENTS_FILE, json.dumps(arguments, indent=2) + "\n")
            self.save_beside_weights(folder, place)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # The Trainer's own rotation deletes any folder checkpoint-*, such as a user's checkpoint-best.
        place = Path(self._get_output_dir(trial), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        if self.args.should_save and os.path.lexists(place):
            refuse_links(place)  # the Trainer would follow links when it writes the files
        with temporarily(self.args, "save_total_limit", None):
            super()._save_checkpoint(model, trial)
        if self.args.should_save:
            apply_umask_to_weights(place)
            rotate_checkpoints(str(place.parent), self.args.save_total_limit, self.state.best_model_checkpoint)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            for name, module in self.modules_to_resume().items():
                safetensors.torch.save_model(module, str(Path(output_dir, name)))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        if not self._is_loaded_as_module():
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_modules_to_resume(resume_from_checkpoint)

    def _is_loaded_as_module(self) -> bool:
        """Whether self.model is in modules_to_resume(), so that its state comes from that file."""
        return any(module is self.model for module in self.modules_to_resume().values())

    def _load_modules_to_resume(self, checkpoint: str) -> None:
        """Load the modules to resume from a checkpoint."""
        for name, module in self.modules_to_resume().items():
            file = Path(checkpoint, name)
            if not file.is_file():
                raise ValueError(f"{checkpoint} has no {name}, so it cannot be resumed: choose another checkpoint.")
            safetensors.torch.load_model(module, str(file), device=str(self.args.device))

    def _load_best_model(self) -> None:
        if self._is_loaded_as_module():
            logger.info("Loading the best model, from %s.", self.state.best_model_checkpoint)
            self._load_modules_to_resume(self.state.best_model_checkpoint)
        else:
            super()._load_best_model()
        self.best_model_is_loaded = True


class PeriodicAndInterruptSave(TrainerCallback):
    """Save a checkpoint after five minutes without one, and stop at Ctrl-C.

    At the first Ctrl-C the current step is finished, and saved if more than a minute of training would be lost. The
    second Ctrl-C stops at once. With ``save_strategy="no"`` nothing is saved.
    """

    def __init__(self, trainer: BaseTrainer) -> None:
        self._trainer = trainer
        self._is_training = False
        self._stop_requested = False
        self._saved_at = 0.0

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle Ctrl-C within the context, in the main thread of this process; forked workers ignore it."""
        before = signal.getsignal(signal.SIGINT)
        process = os.getpid()
        self._is_training = False
        self._stop_requested = False
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            if os.getpid() != process:
                return
            if self._stop_requested or not self._is_training:
                before(number, frame)
            self._stop_requested = True
            os.write(2, b"\nStopping after this step. Ctrl-C again stops at once.\n")

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self._trainer.before_first_step()
        self._is_training = True
        self._saved_at = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs) -> None:
        seconds_unsaved = time.monotonic() - self._saved_at
        must_save = seconds_unsaved > (SECONDS_WORTH_SAVING if self._stop_requested else SECONDS_BETWEEN_SAVES)
        requests = torch.tensor([self._stop_requested, must_save], dtype=torch.float32)
        if process_count() > 1:  # all processes stop and save if one of them has to
            requests = sum_over_processes(requests.to(args.device))
        self._stop_requested, must_save = (requests > 0).tolist()
        if must_save and args.save_strategy != SaveStrategy.NO:
            control.should_save = True
            control.should_log = True
        if self._stop_requested and not control.should_save:
            raise KeyboardInterrupt

    def on_save(self, args, state, control, **kwargs) -> None:
        self._saved_at = time.monotonic()
        if self._stop_requested:
            raise KeyboardInterrupt


@contextlib.contextmanager
def temporarily(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute another value within the context."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
