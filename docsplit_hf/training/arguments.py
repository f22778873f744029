"""ShareableTrainingArguments: what all our trainers ask of TrainingArguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.hf_argparser import HfArg
from transformers.trainer_utils import HubStrategy

from ..models.portable.packing import PACKINGS


@dataclass
class ShareableTrainingArguments(TrainingArguments):
    """``TrainingArguments`` of a run whose folder can be given to others: no pickle is in it.

    > Defaults that differ from ``TrainingArguments``

    - ``hub_strategy="end"``, and no other: what the Trainer pushes in between holds a pickle of the arguments.
    - ``activation_checkpointing_kwargs={"use_reentrant": False}``: the re-entrant kind fails with DDP.
    - ``ddp_find_unused_parameters=False``: what a run does not train is frozen, so that there is nothing to look for.
    - ``dataloader_pin_memory`` is off where there is no accelerator.
    """

    data_description: str | None = HfArg(default=None, help="What the data are, in a few words, for the model card.")
    packing: str = HfArg(
        default="auto",
        help="Run the encoder without padding. 'auto': where its results stay the same. 'on': an error where it "
        "cannot. 'off': never.",
        metadata={"choices": list(PACKINGS)},
    )
    activation_checkpointing_kwargs: dict[str, Any] | str | None = HfArg(
        default_factory=lambda: {"use_reentrant": False},
        help="Passed to activation checkpointing. The re-entrant kind fails with DDP.",
    )
    ddp_find_unused_parameters: bool | None = HfArg(
        default=False,
        help="Have DDP look for parameters without a gradient in each step. What is not trained is frozen.",
    )
    hub_strategy: HubStrategy | str = HfArg(
        default="end", help="When to push to the Hub. Only 'end': in between, a pickle would be pushed."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.push_to_hub and self.hub_strategy != HubStrategy.END:
            raise ValueError(
                f"hub_strategy must be 'end', got {self.hub_strategy.value!r}: what the Trainer pushes in between "
                "holds a pickle of the arguments, which nobody should have to trust."
            )
        # The default asks for it everywhere, and torch warns where there is nothing to pin memory for.
        self.dataloader_pin_memory = self.dataloader_pin_memory and torch.accelerator.is_available()
