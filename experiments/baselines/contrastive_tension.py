"""Contrastive Tension: train two encoders to embed the same text alike, and different texts differently."""

from __future__ import annotations

import copy
import json
import logging
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.hf_argparser import HfArg
from transformers.trainer_utils import EvalLoopOutput, SchedulerType

from docsplit_hf.pretraining.arguments import overridden
from docsplit_hf.pretraining.info_nce import InfoNCE
from docsplit_hf.pretraining.model import Batch, DocSplitOutput
from docsplit_hf.training.distributed import RunningMeans, gather, gather_with_gradient, process_index

from .two_encoders import TwoEncoderArguments, TwoEncoderTrainer

logger = logging.getLogger(__name__)

STATE_FILE = "contrastive_tension.safetensors"  # both encoders, in each checkpoint, for resuming only
ENCODERS = ("first", "second")


@dataclass
class ContrastiveTensionArguments(TwoEncoderArguments):
    """Arguments of ``ContrastiveTensionTrainer``: those of ``ContrastiveTrainingArguments`` and the following.

    ``temperature`` has no effect.
    """

    objective: str = overridden("objective", "contrastive_tension")
    tension_negatives: int = HfArg(default=7, help="Negatives per document. The paper uses 7.")
    learning_rate_steps: dict | str | None = HfArg(
        default=None,
        help="A piecewise constant learning rate, as JSON from the first step of each rate to the rate, such as "
        '\'{"500": 8e-6, "1000": 6e-6}\'. It replaces the schedule.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tension_negatives < 1:
            raise ValueError(f"tension_negatives must be at least 1, got {self.tension_negatives}. The paper uses 7.")
        if self.similarity != "dot":
            raise ValueError(f"contrastive_tension compares by dot products, got similarity={self.similarity!r}.")
        if self.activation_checkpointing:
            raise ValueError(
                "contrastive_tension trains its encoders in evaluation mode, without dropout, where transformers has "
                "no activation checkpointing: use forward_chunk_size."
            )
        batch = self.per_device_train_batch_size * self.world_size
        if batch <= self.tension_negatives:
            raise ValueError(
                f"tension_negatives={self.tension_negatives} need a batch of at least {self.tension_negatives + 1} "
                f"documents, got {batch}: raise per_device_train_batch_size."
            )
        if not self.dataloader_drop_last:
            raise ValueError("dataloader_drop_last=False would give a last batch with too few negatives: leave it out.")
        self.learning_rate_steps = _learning_rates(self.learning_rate_steps)
        if self.learning_rate_steps:
            self.lr_scheduler_type = SchedulerType.CONSTANT
            if self.learning_rate <= 0:
                raise ValueError(f"learning_rate_steps need a learning_rate above 0 first, got {self.learning_rate}.")


def _learning_rates(steps: dict | str | None) -> dict[int, float] | None:
    """Parse a piecewise constant learning rate: the rates by their first step, in the order of the steps."""
    if steps is None:
        return None
    try:
        given = json.loads(steps) if isinstance(steps, str) else steps
        rates = {int(step): float(rate) for step, rate in given.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            "learning_rate_steps must be a dictionary from steps to learning rates, such as "
            f'{{"500": 8e-6}}, got {steps!r}.'
        ) from error
    for step, rate in rates.items():
        if step < 0 or not 0 <= rate < math.inf:
            raise ValueError(f"learning_rate_steps has the rate {rate} from step {step} on: neither may be below 0.")
    return dict(sorted(rates.items()))


def contrastive_tension(
    anchors: torch.Tensor,
    candidates: torch.Tensor,
    first_positive: int = 0,
    anchor_ids: torch.Tensor | None = None,
    candidate_ids: torch.Tensor | None = None,
    negatives: int = 7,
) -> InfoNCE:
    """Binary cross entropy of dot products: same text or not (Carlsson et al. 2021, section 3).

    Anchor ``a_i``, by the first encoder, is paired with its positive ``c_j``, ``j = first_positive + i``, the same text
    by the second encoder, and with the next K candidates, ``c_(j+1) ... c_(j+K)``, starting over after the last. With
    ``y = 1`` for the positive and 0 for the others::

        loss_i = mean over the K + 1 pairs of -y log sigmoid(a_i . c) - (1 - y) log(1 - sigmoid(a_i . c))

    This follows the paper: a text against itself and K others. In the released code the K negatives are pairs of two
    unrelated texts, and one text of K + 1 is a positive. ``anchors``: ``(A, D)``, by the first encoder;
    ``candidates``: ``(C, D)``, C above K, by the second; duplicates of the anchor's document are left out.
    """
    with torch.autocast(anchors.device.type, enabled=False):
        scores = anchors.float() @ candidates.float().T  # (A, C)
    rows = torch.arange(len(candidates), device=anchors.device)
    places_after_positive = (rows[None] - rows[: len(anchors), None] - first_positive) % len(candidates)
    is_positive = places_after_positive == 0
    is_negative = (places_after_positive > 0) & (places_after_positive <= negatives)
    if anchor_ids is not None:
        is_negative &= anchor_ids[:, None] != candidate_ids[None]
    is_pair = is_positive | is_negative
    entropies = functional.binary_cross_entropy_with_logits(scores, is_positive.float(), reduction="none")
    negative_count = is_negative.sum(1)
    with torch.no_grad():
        most_similar = scores.masked_fill(~is_pair, -torch.inf).argmax(1)
        positive_similarity = scores[is_positive]
        negative_sum = scores.masked_fill(~is_negative, 0).sum(1)
    return InfoNCE(
        loss=(entropies * is_pair).sum(1) / is_pair.sum(1),
        correct=(most_similar == is_positive.int().argmax(1)).float(),
        positive_similarity=positive_similarity,
        negative_similarity=negative_sum / negative_count.clamp(min=1),
        negatives=negative_count.float(),
    )


class EncoderPair(nn.Module):
    """Two encoders with equal first weights, for anchors and positives, without dropout, as in the released code.

    Outside training, only the encoder with the number ``chosen`` is used.
    """

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        self.encoders = nn.ModuleList([encoder, copy.deepcopy(encoder)])
        self.register_buffer("chosen", torch.zeros((), dtype=torch.int64))

    def train(self, mode: bool = True) -> EncoderPair:
        """Set training or evaluation mode; the encoders stay in evaluation mode."""
        super().train(False)
        self.training = mode
        return self

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> DocSplitOutput:
        """Embed ``(2B, L)``: in training, anchors by the first encoder and positives by the second."""
        if not self.training:
            return self.chosen_encoder()(input_ids=input_ids, attention_mask=attention_mask)
        views = zip(self.encoders, input_ids.chunk(2), attention_mask.chunk(2), strict=True)
        embeddings = [encoder(input_ids=ids, attention_mask=mask).embeddings for encoder, ids, mask in views]
        return DocSplitOutput(embeddings=torch.cat(embeddings))

    def chosen_encoder(self) -> PreTrainedModel:
        """The encoder that is evaluated and saved."""
        return self.encoders[int(self.chosen)]


class ContrastiveTensionTrainer(TwoEncoderTrainer):
    """Train two encoders to embed the same text alike, with the views ``"simcse"`` or ``"simcse_long"``.

    The encoder with the better recall@1 of half-document retrieval (the better MRR, if these are equal; the first
    encoder, without an evaluation) is reported and saved. Checkpoints have both. Settings of the released code:
    ``optim="rmsprop", optim_args="alpha=0.9,eps=1e-7", max_grad_norm=0, learning_rate=1e-5,
    learning_rate_steps={500: 8e-6, 1000: 6e-6, 1500: 4e-6, 2000: 2e-6}``.
    """

    arguments_class = ContrastiveTensionArguments

    def __init__(self, model: PreTrainedModel, args: ContrastiveTensionArguments, *others: Any, **kwargs: Any) -> None:
        # Not checked by the arguments' class: a script may set load_best_model_at_end to False after making them.
        if args.save_only_model and args.load_best_model_at_end:
            raise ValueError("load_best_model_at_end needs both encoders, which save_only_model=True does not save.")
        super().__init__(model, args, *others, **kwargs)
        if isinstance(self.eval_dataset, dict):
            raise ValueError(
                "contrastive_tension saves the encoder that is better on held-out documents: give one set of them, "
                f"not {len(self.eval_dataset)}."
            )
        if self.eval_dataset is None:
            logger.warning("There are no held-out documents to compare the encoders on: the first will be saved.")
        self.model = EncoderPair(self.model)
        self.model_wrapped = self.model

    def contrast(self, embeddings: torch.Tensor, inputs: Batch) -> InfoNCE:
        """Binary cross entropy of pairs; ``embeddings``: ``(2B, D)``, B by the first encoder, then B by the second."""
        anchors, positives = embeddings.chunk(2)
        ids = inputs["document_ids"]
        return contrastive_tension(
            anchors,
            gather_with_gradient(positives),
            first_positive=process_index() * len(ids),
            anchor_ids=ids,
            candidate_ids=gather(ids),
            negatives=self.args.tension_negatives,
        )

    def create_scheduler(self, num_training_steps, optimizer=None):
        """Create the scheduler of the arguments; with ``learning_rate_steps`` it is piecewise constant."""
        is_new = self.lr_scheduler is None
        super().create_scheduler(num_training_steps, optimizer)
        rates = self.args.learning_rate_steps
        if rates and is_new:
            first_rate = self.args.learning_rate

            def factor(step: int) -> float:
                reached = [rate for start, rate in rates.items() if step >= start]  # in order of the steps
                return (reached[-1] if reached else first_rate) / first_rate

            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer or self.optimizer, factor)
        return self.lr_scheduler

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Evaluate both encoders, and choose the better one; ``predict`` uses the encoder that was chosen before."""
        if kwargs.get("description") == "Prediction":  # test documents must not affect the choice
            return super().evaluation_loop(*args, **kwargs)
        outputs = []
        means = []
        for number in range(len(ENCODERS)):
            self.model.chosen.fill_(number)
            self.means = RunningMeans()
            outputs.append(super().evaluation_loop(*args, **kwargs))
            means.append(self.means)
        prefix = kwargs.get("metric_key_prefix", "eval")
        scores = [(output.metrics[f"{prefix}_recall@1"], output.metrics[f"{prefix}_mrr"]) for output in outputs]
        better = int(scores[1] > scores[0])
        self.model.chosen.fill_(better)
        self.means = means[better]
        for name, (recall, _) in zip(ENCODERS, scores, strict=True):
            outputs[better].metrics[f"{prefix}_{name}_encoder_recall@1"] = recall
        return outputs[better]

    def model_to_save(self) -> nn.Module:
        """The chosen encoder."""
        return self.model.chosen_encoder()

    def modules_to_resume(self) -> dict[str, nn.Module]:
        """Both encoders."""
        return {STATE_FILE: self.model}
