"""Arguments that all trainers share, and checks before the first step."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import get_int_from_env
from transformers import TrainingArguments
from transformers.hf_argparser import HfArg
from transformers.trainer_utils import HubStrategy

from ..cores import core_count
from ..encoding.portable.run_encoder import PACKINGS
from .distributed import process_count, uses_fsdp

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

COMPILE_LAYERS = ("auto", "on", "off")
STEPS_WORTH_COMPILING = 300  # compiled, they save about the time that compiling takes
MOST_WORKERS = 8
PREFETCHED_BATCHES = 4  # per worker
PREFETCHED_ROWS = 2**14  # of all workers


@dataclass
class ShareableTrainingArguments(TrainingArguments):
    """``TrainingArguments`` for runs with an output folder without pickles, so that it can be shared."""

    data_description: str | None = HfArg(default=None, help="A short description of the data for the model card.")
    packing: str = HfArg(
        default="auto",
        help="Run the encoder without padding. 'auto': if its results stay the same. 'on': always, or fail. 'off': "
        "never.",
        metadata={"choices": list(PACKINGS)},
    )
    compile_layers: str = HfArg(
        default="auto",
        help="Compile each layer of the encoder, within seconds: a step on a GPU is faster by a quarter. 'auto': on "
        f"CUDA, in runs of more than {STEPS_WORTH_COMPILING} steps. 'on': always. 'off': never.",
        metadata={"choices": list(COMPILE_LAYERS)},
    )
    dataloader_num_workers: int | None = HfArg(
        default=None,
        help="Processes that make the batches; 0: the process that trains. Default: half of the cores, up to 8, on "
        "CUDA; otherwise 0.",
    )
    dataloader_prefetch_factor: int | None = HfArg(
        default=None,
        help="Batches that each of these processes makes in advance. Default: up to 4.",
    )
    activation_checkpointing_kwargs: dict[str, Any] | str | None = HfArg(
        default_factory=lambda: {"use_reentrant": False},
        help="Passed to activation checkpointing. The re-entrant kind fails with DDP.",
    )
    logging_nan_inf_filter: bool = HfArg(
        default=False,
        help="Leave losses that are not numbers out of the log. If they are shown, no step waits for the GPU.",
    )
    ddp_find_unused_parameters: bool | None = HfArg(
        default=False,
        help="Let DDP look for parameters without a gradient in each step. Not needed: untrained ones are frozen.",
    )
    hub_strategy: HubStrategy | str = HfArg(
        default="end", help="When to push to the Hub. Must be 'end': a push during training would contain a pickle."
    )

    def __post_init__(self) -> None:
        self._set_workers()
        super().__post_init__()
        if self.push_to_hub and self.hub_strategy != HubStrategy.END:
            problem = "a push of the Trainer during training contains a pickle"
            raise ValueError(f"hub_strategy must be 'end', got {self.hub_strategy.value!r}: {problem}.")
        if self.compile_layers not in COMPILE_LAYERS:
            raise ValueError(f"compile_layers must be one of {COMPILE_LAYERS}, got {self.compile_layers!r}.")
        if self.compile_layers == "on" and self.torch_compile:
            raise ValueError("torch_compile compiles the whole model, and compile_layers each layer: choose one.")
        # On by default, but torch warns if there is no accelerator to pin memory for.
        self.dataloader_pin_memory = self.dataloader_pin_memory and torch.accelerator.is_available()
        if self.dataloader_pin_memory:  # the next batch is copied while the GPU computes
            self.accelerator_config.non_blocking = True

    def _set_workers(self) -> None:
        """Replace the arguments of data loader workers that are None by their defaults."""
        if self.dataloader_num_workers is None:
            self.dataloader_num_workers = default_workers(
                training_device_type(self.use_cpu),
                cores=core_count(),
                local_processes=get_int_from_env(["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"], 1),
                start_methods=multiprocessing.get_all_start_methods(),
            )
            if self.dataloader_num_workers > 0 and self.dataloader_multiprocessing_context is None:
                # Other methods would need a script with a main guard, and picklable views. Workers do not use CUDA.
                self.dataloader_multiprocessing_context = "fork"
        if self.dataloader_prefetch_factor is None and self.dataloader_num_workers > 0:
            rows = self.per_device_train_batch_size * self.dataloader_num_workers
            self.dataloader_prefetch_factor = min(max(PREFETCHED_ROWS // rows, 1), PREFETCHED_BATCHES)


def default_workers(device_type: str, cores: int, local_processes: int, start_methods: Sequence[str]) -> int:
    """The default number of data loader workers of a process.

    Args:
        device_type: The type of the device that trains, such as ``"cuda"``.
        cores: Cores of this machine.
        local_processes: Processes on this machine that train together.
        start_methods: The methods to start a process that the system has.

    Returns:
        Half of the process's share of the cores, up to ``MOST_WORKERS``, on CUDA where processes can be forked;
        otherwise 0, because on a CPU workers would take the cores that train.
    """
    if device_type != "cuda" or "fork" not in start_methods:
        return 0
    return min(cores // (2 * local_processes), MOST_WORKERS)


def training_device_type(use_cpu: bool) -> str:
    """The type of the device that a run with these arguments uses: ``"cuda"``, or ``"cpu"`` for any other."""
    on_cpu = use_cpu or os.environ.get("ACCELERATE_USE_CPU", "false").lower() == "true"
    return "cuda" if torch.cuda.is_available() and not on_cpu else "cpu"


def freeze_unused(model: PreTrainedModel, with_head: bool = True) -> None:
    """Freeze parameters that no loss depends on, because DDP would wait for their gradients.

    These are the pooler and, with ``with_head=False``, the head.
    """
    poolers = set()
    for name, parameter in model.base_model.named_parameters():
        if name.startswith("pooler."):
            poolers.add(id(parameter))
    trained = model if with_head else model.base_model
    used = {id(parameter) for parameter in trained.parameters()} - poolers
    unused = [parameter for parameter in model.parameters() if id(parameter) not in used]
    for parameter in unused:
        parameter.requires_grad_(False)
    if unused:
        logger.info("Froze %d parameters that no loss depends on.", sum(parameter.numel() for parameter in unused))


def check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer with more tokens than the model has embeddings."""
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} tokens and the model embeddings for {rows}: call "
            "model.resize_token_embeddings(len(tokenizer)), or use the model's own."
        )


def check_weights(model: PreTrainedModel) -> None:
    """Refuse to train float16 weights: they lose small updates, and the squares of small gradients underflow."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype == torch.float16:
            raise ValueError(
                f'{name} has weights of float16, which lose small updates: load the model with dtype="float32", and '
                "train with bf16=True or fp16=True for speed."
            )


def check_processes(args: ShareableTrainingArguments) -> None:
    """Refuse unconnected processes and several GPUs in one process; warn about FSDP without a GPU."""
    if process_count() != args.world_size:
        raise ValueError(
            f"{process_count()} processes are connected, but the arguments have {args.world_size}: each would train "
            "alone. Processes on the CPU need --use_cpu."
        )
    if args.n_gpu > 1:
        raise ValueError(
            f"{args.n_gpu} GPUs in one process would split the batch, in which texts are compared: start with "
            "accelerate launch, or make only one GPU visible (CUDA_VISIBLE_DEVICES=0)."
        )
    if uses_fsdp(args) and args.device.type == "cpu":
        logger.warning(
            "Accelerate does not shard on CPUs: FSDP is ignored, and each process has the whole model (DDP)."
        )
