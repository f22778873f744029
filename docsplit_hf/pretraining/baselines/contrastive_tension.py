"""Contrastive Tension: two encoders that agree on the same text, and disagree on others."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.trainer_utils import EvalLoopOutput

from ...training.statistics import RunningMeans
from ..arguments import ContrastiveTrainingArguments
from ..checks import check_two_encoders
from ..contrastive_trainer import ContrastiveTrainer
from ..info_nce import InfoNCE
from ..model import DocSplitOutput

logger = logging.getLogger(__name__)

STATE_FILE = "contrastive_tension.safetensors"  # both encoders, in each checkpoint: for resuming only
ENCODERS = ("first", "second")


def contrastive_tension(
    anchors: torch.Tensor,
    candidates: torch.Tensor,
    first_positive: int = 0,
    anchor_ids: torch.Tensor | None = None,
    candidate_ids: torch.Tensor | None = None,
    negatives: int = 7,
) -> InfoNCE:
    """Binary cross entropy of dot products: is it the same text or not (Carlsson et al. 2021, section 3)?

    Anchor ``a_i``, by the first encoder, is paired with its positive ``c_j``, ``j = first_positive + i``, the same text
    by the second encoder, and with the K candidates that follow, ``c_(j+1) ... c_(j+K)``, from the start again after
    the last. With ``y = 1`` for the positive and 0 for the others::

        loss_i = mean over the K + 1 pairs of -y log sigmoid(a_i . c) - (1 - y) log(1 - sigmoid(a_i . c))

    This is the paper's reading: a text against itself and K others. In the released code the K negatives of a group are
    pairs of two unrelated texts instead, and one text of a group is its only positive. Here every document of a batch
    is an anchor, so that an epoch trains on as many positives as one of the other methods, K negatives each.

    Candidates that are duplicates of the anchor's document are left out.

    Args:
        anchors: ``(A, D)``, by the first encoder.
        candidates: ``(C, D)``, by the second encoder.
        first_positive: Where the anchors' own positives begin among the candidates.
        anchor_ids: ``(A,)``, names of the anchors' documents. None: there are no duplicates.
        candidate_ids: ``(C,)``, names of the candidates' documents.
        negatives: K.

    Returns:
        Loss and statistics of each anchor.

    Raises:
        ValueError: If there are too few candidates for K negatives.

    Example:

        >>> zeros = torch.zeros(8, 4)  # undecided: log 2
        >>> round(contrastive_tension(zeros, zeros).loss.mean().item(), 4)
        0.6931
    """
    if len(candidates) <= negatives:
        raise ValueError(f"{negatives} negatives need a batch of {negatives + 1} documents, got {len(candidates)}.")
    with torch.autocast(anchors.device.type, enabled=False):
        scores = anchors.float() @ candidates.float().T  # (A, C)
    rows = torch.arange(len(candidates), device=anchors.device)
    distance = (rows[None] - rows[: len(anchors), None] - first_positive) % len(candidates)
    is_positive, is_negative = distance == 0, (distance > 0) & (distance <= negatives)
    if anchor_ids is not None:
        is_negative &= anchor_ids[:, None] != candidate_ids[None]
    pairs = is_positive | is_negative
    entropies = functional.binary_cross_entropy_with_logits(scores, is_positive.float(), reduction="none")
    with torch.no_grad():
        number = is_negative.sum(1)
        statistics = (
            (scores.masked_fill(~pairs, -torch.inf).argmax(1) == is_positive.int().argmax(1)).float(),
            scores[is_positive],
            scores.masked_fill(~is_negative, 0).sum(1) / number.clamp(min=1),
            number.float(),
        )
    return InfoNCE((entropies * pairs).sum(1) / pairs.sum(1), *statistics)


class EncoderPair(nn.Module):
    """Two encoders that start alike, the first for the anchors and the second for the positives.

    Their dropout is off in training too, as in the released code. Evaluation is by one of them, ``chosen``.

    Args:
        encoder: From ``AutoModelForDocSplit``.

    Example:

        >>> from transformers import BertConfig
        >>> from docsplit_hf import AutoModelForDocSplit
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> pair = EncoderPair(AutoModelForDocSplit.from_config(config)).train()
        >>> embeddings = pair(torch.ones(4, 3, dtype=torch.int64), torch.ones(4, 3, dtype=torch.int64)).embeddings
        >>> embeddings[:2].equal(embeddings[2:])
        True
    """

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        self.encoders = nn.ModuleList([encoder, copy.deepcopy(encoder)])
        self.register_buffer("chosen", torch.zeros((), dtype=torch.int64))

    def train(self, mode: bool = True) -> EncoderPair:
        """Go into training mode, or evaluation mode; the encoders stay in evaluation mode.

        Args:
            mode: Whether to train.

        Returns:
            This module.
        """
        super().train(False)
        self.training = mode
        return self

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> DocSplitOutput:
        """Embed views: in training the anchors by the first encoder and the positives by the second.

        Args:
            input_ids: ``(2B, L)``, rows i and B+i being the views of document i.
            attention_mask: ``(2B, L)``.

        Returns:
            The embeddings, ``(2B, D)``.
        """
        if not self.training:
            return self.chosen_encoder()(input_ids=input_ids, attention_mask=attention_mask)
        views = zip(self.encoders, input_ids.chunk(2), attention_mask.chunk(2), strict=True)
        embeddings = [encoder(input_ids=ids, attention_mask=mask).embeddings for encoder, ids, mask in views]
        return DocSplitOutput(embeddings=torch.cat(embeddings))

    def chosen_encoder(self) -> PreTrainedModel:
        """The encoder that is evaluated and saved.

        Returns:
            One of the two.
        """
        return self.encoders[int(self.chosen)]


class ContrastiveTensionTrainer(ContrastiveTrainer):
    """Trains two encoders to agree on the same text: ``objective="contrastive_tension"``.

    Both are evaluated by half-document retrieval, and the one with the better recall@1 (MRR, if equal; the first, if
    nothing was evaluated) is what the evaluation reports and what is saved, as a stock checkpoint. ``predict`` is by
    that one, and chooses none. Both are saved in checkpoints beside it, and a resumed run goes on as if it had not been
    interrupted.

    The views are meant to be the same text twice, ``"simcse"`` or ``"simcse_long"``. Optimizer and schedule of the
    released code: ``optim="rmsprop", optim_args="alpha=0.9,eps=1e-7", max_grad_norm=0, learning_rate=1e-5,
    learning_rate_steps={500: 8e-6, 1000: 6e-6, 1500: 4e-6, 2000: 2e-6}``.

    Args:
        model: From ``AutoModelForDocSplit``.
        args: The arguments: ``tension_negatives``, ``gather_negatives``.
        *others: As ``ContrastiveTrainer``.
        **kwargs: As ``ContrastiveTrainer``.

    Raises:
        ValueError: If the arguments, the collator, the model and the data do not fit together; the message says how.

    Example:

        >>> from docsplit_hf.pretraining.trainers import get_trainer_class
        >>> get_trainer_class("contrastive_tension") is ContrastiveTensionTrainer
        True
    """

    objective = "contrastive_tension"

    def __init__(self, model: PreTrainedModel, args: ContrastiveTrainingArguments, *others: Any, **kwargs: Any) -> None:
        check_two_encoders(model, args)
        _check_arguments(args)
        super().__init__(model, args, *others, **kwargs)
        if isinstance(self.eval_dataset, dict):
            raise ValueError(
                f"contrastive_tension keeps the encoder that is better on held-out documents: give one set of them, "
                f"not {len(self.eval_dataset)}."
            )
        if self.eval_dataset is None:
            logger.warning("There are no held-out documents to tell which encoder is better: the first will be saved.")
        self.model = self.model_wrapped = EncoderPair(self.model)

    @property
    def method(self) -> str:
        """What was done, for the model card."""
        chosen = "first of the two: no held-out documents were evaluated"
        if any("eval_first_encoder_recall@1" in logs for logs in self.state.log_history):
            chosen = "better of the two on held-out documents"
        return (
            "Two encoders that started alike were trained to agree on the two views of a document, and to disagree on "
            f"those of different documents (Contrastive Tension). This is the {chosen}."
        )

    def contrast(self, embeddings: torch.Tensor, inputs: dict[str, torch.Tensor]) -> InfoNCE:
        """The loss of a batch.

        Args:
            embeddings: ``(2B, D)``, the first half by the first encoder.
            inputs: The batch, with ``document_ids``.

        Returns:
            Loss and statistics of each document of this process, ``(B,)`` each.
        """
        anchors, positives = embeddings.chunk(2)
        candidates = self.candidates(positives, inputs["document_ids"])
        return contrastive_tension(anchors, *candidates, negatives=self.args.tension_negatives)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Evaluate both encoders, and choose the better.

        Args:
            *args: As ``Trainer.evaluation_loop``.
            **kwargs: As ``Trainer.evaluation_loop``.

        Returns:
            What the better one gives, with the recall of both as ``first_encoder_recall@1`` and so on. Of ``predict``,
            what the chosen one gives.
        """
        if kwargs.get("description") == "Prediction":  # of other documents than those that decide
            return super().evaluation_loop(*args, **kwargs)
        outputs, means = [], []
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

    def describe_loss(self) -> str:
        """The loss in a few words, for the model card.

        Returns:
            A line of text.
        """
        return "binary cross entropy of dot products (Contrastive Tension)"

    def count_negatives(self) -> int:
        """How many negatives a document has in a step.

        Returns:
            The number.
        """
        return self.args.tension_negatives

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        pair, self.model = self.model, self.model.chosen_encoder()
        try:
            super()._save(output_dir)
        finally:
            self.model = pair

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            safetensors.torch.save_model(self.model, str(Path(output_dir, STATE_FILE)))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        file = Path(resume_from_checkpoint, STATE_FILE)
        if not file.is_file():
            raise ValueError(f"{resume_from_checkpoint} has no {STATE_FILE}: it does not hold both encoders.")
        safetensors.torch.load_model(self.model, str(file), device=str(self.args.device))

    def _load_best_model(self) -> None:
        logger.info("Loading the best encoders, of %s.", self.state.best_model_checkpoint)
        self._load_from_checkpoint(self.state.best_model_checkpoint)
        self.best_model_is_loaded = True


def _check_arguments(args: ContrastiveTrainingArguments) -> None:
    if args.similarity != "dot":
        raise ValueError(f"contrastive_tension compares by dot products, got similarity={args.similarity!r}.")
    if args.activation_checkpointing:
        raise ValueError(
            "contrastive_tension trains without dropout, its encoders in evaluation mode, where transformers does no "
            "activation checkpointing: use forward_chunk_size."
        )
    if args.prediction_loss_only:
        raise ValueError("prediction_loss_only=True: the recall of both encoders decides which is saved. Leave it out.")
    if args.neftune_noise_alpha is not None:
        raise ValueError(
            f"neftune_noise_alpha={args.neftune_noise_alpha} does not go with contrastive_tension, whose encoders are "
            "in evaluation mode, without noise: leave it out."
        )
    if args.save_only_model and args.load_best_model_at_end:
        raise ValueError("load_best_model_at_end needs both encoders, which save_only_model=True does not save.")
    batch = args.per_device_train_batch_size * (args.world_size if args.gather_negatives else 1)
    if batch <= args.tension_negatives:
        raise ValueError(
            f"tension_negatives={args.tension_negatives} need a batch of at least {args.tension_negatives + 1} "
            f"documents, got {batch}: raise per_device_train_batch_size."
        )
    if not args.dataloader_drop_last:
        raise ValueError("dataloader_drop_last=False would give a last batch with too few negatives: leave it out.")
