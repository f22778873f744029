"""Model card of a pretraining run: training data and settings, evaluation, loading."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers.trainer_utils import has_length

from ..training.arguments import ShareableTrainingArguments
from ..training.markdown import describe_training, public_name, save_model_card, table
from .half_retrieval import evaluations_by_step
from .views import VIEWS, get_views

DOCSPLIT_CITATION = "DocSplit: Simple Contrastive Pretraining for Large Document Embeddings. Yujie Wang, Mike Izbicki."
BASELINE_CITATION = "This is a baseline for DocSplit, not DocSplit itself: cite the method that it was trained by."
LONGFORMER_NOTE = (
    "\n\nOnly `DocumentEncoder` gives the first token global attention, as in training; with the other two, pass "
    "`global_attention_mask` yourself."
)


def save_card(folder: str | Path, location: str, trainer: Any) -> None:
    """Write the model card of a ``ContrastiveTrainer``; ``location``: a name on the Hub, or the final folder."""
    args = trainer.args
    config = trainer.encoder_config
    is_docsplit = get_views(trainer.training_collator.views) is VIEWS["docsplit"] and args.objective == "info_nce"
    citation = DOCSPLIT_CITATION if is_docsplit else BASELINE_CITATION
    if args.objective == "distillation":
        citation = f"Cite the teacher: {public_name(args.teacher)}."
    tags = ["docsplit"] if is_docsplit else []
    tags.append("document-embeddings")
    if args.compares_views:
        tags.append("contrastive-pretraining")
    tags.append("feature-extraction")
    base = config.name_or_path
    metadata = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "base_model": base if base and public_name(base) == base else None,
        "tags": tags,
    }
    save_model_card(
        folder,
        __package__,
        location,
        metadata,
        dimensions=config.hidden_size,
        note=LONGFORMER_NOTE if config.model_type == "longformer" else "",
        citation=citation,
        training=table(("", "this run"), _training_rows(trainer).items()),
        evaluation=_evaluation_table(evaluations_by_step(trainer.state.log_history)),
    )


def _training_rows(trainer: Any) -> dict[str, str]:
    """The rows of the card's table about the run."""
    args = trainer.args
    collator = trainer.training_collator
    config = trainer.encoder_config
    documents = "a stream"
    if trainer.train_dataset is not None and has_length(trainer.train_dataset):
        documents = f"{len(trainer.train_dataset):,}"
    of_every_run = {field.name for field in dataclasses.fields(ShareableTrainingArguments)}
    own = [field.name for field in dataclasses.fields(trainer.arguments_class) if field.name not in of_every_run]
    return {
        "Starting point": public_name(config.name_or_path or f"random weights ({config.model_type})"),
        "Training documents": documents,
        "Views": _listed(collator.views_name, collator.views_kwargs or {}),
        "Objective": _listed(args.objective, {name: getattr(args, name) for name in own if name != "objective"}),
        "Maximum length": f"{collator.max_length} tokens",
        "Pooling": config.docsplit["pooling"],
        **describe_training(args, trainer.state, trainer.best_model_is_loaded, "documents"),
    }


def _listed(name: str, options: Mapping[str, Any]) -> str:
    """A name with its options, without those that are not used."""
    shown = [name]
    for option, value in options.items():
        if value not in (None, False, ""):
            shown.append(f"{option} {public_name(value) if isinstance(value, str) else value}")
    return ", ".join(shown)


def _evaluation_table(evaluations: list[dict[str, float]]) -> str:
    """The table of the first and the last evaluation, with a row for each metric."""
    if not evaluations:
        return "No held-out documents were evaluated in this run."
    shown = [evaluations[0], evaluations[-1]] if len(evaluations) > 1 else evaluations
    header = ("", *(f"step {logs['step']:,}" for logs in shown))
    rows = []
    for name in evaluations[0]:
        if name.startswith("eval_") and name.endswith(("mrr", "@1", "@10")):
            rows.append((name.removeprefix("eval_"), *(f"{logs[name]:.4f}" for logs in shown)))
    return table(header, rows)
