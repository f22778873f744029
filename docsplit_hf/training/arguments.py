"""Arguments that all trainers share, and checks before the first step."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainingArguments
from transformers.hf_argparser import HfArg
from transformers.trainer_utils import HubStrategy

from ..encoders.portable.run_encoder import PACKINGS
from .distributed import process_count, uses_fsdp

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

COMPILE_LAYERS = ("auto", "on", "off")
STEPS_WORTH_COMPILING = 300  # compiling takes about as long as a quarter of them saves


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
    bf16_residual: bool = HfArg(
        default=False,
        help="With --bf16, layer norms take and give bfloat16, and the residual stream has half the bytes: faster on a "
        "GPU, and rounded once more in each layer.",
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
        super().__post_init__()
        if self.push_to_hub and self.hub_strategy != HubStrategy.END:
            problem = "a push of the Trainer during training contains a pickle"
            raise ValueError(f"hub_strategy must be 'end', got {self.hub_strategy.value!r}: {problem}.")
        if isinstance(self.compile_layers, bool):  # from Python
            self.compile_layers = "on" if self.compile_layers else "off"
        if self.compile_layers not in COMPILE_LAYERS:
            raise ValueError(f"compile_layers must be one of {COMPILE_LAYERS}, got {self.compile_layers!r}.")
        if self.compile_layers == "on" and self.torch_compile:
            raise ValueError("torch_compile compiles the whole model, and compile_layers each layer: choose one.")
        if self.bf16_residual and not self.bf16:
            raise ValueError("bf16_residual=True needs bf16=True: in float32 there is nothing to leave out.")
        # On by default, but torch warns if there is no accelerator to pin memory for.
        self.dataloader_pin_memory = self.dataloader_pin_memory and torch.accelerator.is_available()
        if self.dataloader_pin_memory:  # the next batch is copied while the GPU computes
            self.accelerator_config.non_blocking = True


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
        counts = f"The tokenizer has {len(tokenizer)} tokens and the model embeddings for {rows}"
        raise ValueError(f"{counts}: call model.resize_token_embeddings(len(tokenizer)), or use the model's own.")


def check_weights(model: PreTrainedModel) -> None:
    """Refuse to train float16 weights: they lose small updates, and the squares of small gradients underflow."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype == torch.float16:
            advice = 'load the model with dtype="float32", and train with bf16=True or fp16=True for speed'
            raise ValueError(f"{name} has weights of float16, which lose small updates: {advice}.")


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
