"""Model card of a pretraining run: training data and settings, evaluation, loading."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.trainer_utils import has_length

from ..encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..training.arguments import ShareableTrainingArguments
from ..training.markdown import code_block, describe_training, public_name, save_model_card, table
from .half_retrieval import evaluations_by_step
from .views import VIEWS, get_views

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from .arguments import ContrastiveTrainingArguments
    from .collator import DataCollatorForDocSplit

DOCSPLIT_CITATION = "DocSplit: Simple Contrastive Pretraining for Large Document Embeddings. Yujie Wang, Mike Izbicki."
BASELINE_CITATION = "This is a baseline for DocSplit, not DocSplit itself: cite the method that it was trained by."


def save_card(folder: str | Path, location: str, trainer: Any, is_merged: bool) -> None:
    """Write the model card of a ``ContrastiveTrainer``; ``location``: a name on the Hub, or the final folder."""
    args = trainer.args
    collator = trainer.training_collator
    config = trainer.encoder_config
    adapter_base = None  # the class that loads the base model of an adapter
    if hasattr(trainer.model, "peft_config") and not is_merged:
        adapter_base = "AutoModelForMaskedLM" if trainer.model.get_base_model().has_head else "AutoModel"
    citation = DOCSPLIT_CITATION if _is_docsplit(args, collator) else BASELINE_CITATION
    if args.objective == "distillation":
        citation = f"Cite the teacher: {public_name(args.teacher)}."
    save_model_card(
        folder,
        __package__,
        location,
        _metadata(args, collator, config, is_adapter=adapter_base is not None),
        kind="adapter (LoRA)" if adapter_base else "encoder",
        dimensions=config.hidden_size,
        citation=citation,
        training=table(("", "this run"), _training_rows(trainer).items()),
        evaluation=_evaluation_table(evaluations_by_step(trainer.state.log_history)),
        loading=_loading(location, config, adapter_base),
    )


def _is_docsplit(args: ContrastiveTrainingArguments, collator: DataCollatorForDocSplit) -> bool:
    """Whether the run is DocSplit, and not one of the baselines."""
    return get_views(collator.views) is VIEWS["docsplit"] and args.objective == "info_nce"


def _metadata(
    args: ContrastiveTrainingArguments, collator: DataCollatorForDocSplit, config: PretrainedConfig, is_adapter: bool
) -> dict[str, str | list[str] | None]:
    """The card's metadata, as ``ModelCardData`` takes them."""
    tags = ["docsplit"] if _is_docsplit(args, collator) else []
    tags.append("document-embeddings")
    if args.compares_views:
        tags.append("contrastive-pretraining")
    tags.append("feature-extraction")
    base = config.name_or_path
    return {
        "library_name": "peft" if is_adapter else "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "base_model": base if base and public_name(base) == base else None,
        "tags": tags,
    }


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
    rows = [
        (name.removeprefix("eval_"), *(f"{logs[name]:.4f}" for logs in shown))
        for name in evaluations[0]
        if name.startswith("eval_") and name.endswith(("mrr", "@1", "@10"))
    ]
    return table(header, rows)


def _loading(location: str, config: PretrainedConfig, adapter_base: str | None) -> str:
    """The code that loads the model, by each library; ``adapter_base``: the class of an adapter's base model."""
    encoder = f"""from docsplit_hf import DocumentEncoder

encoder = DocumentEncoder.from_pretrained("{location}")
embeddings = encoder.encode(["A document.", "Another one."])  # float32, (2, {config.hidden_size})"""
    if adapter_base:
        base = f'"{config.name_or_path}"'
        more_imports = ""
        if config.name_or_path == DEFAULT_CHECKPOINT:
            base = "default_checkpoint()"
            more_imports = "\n\nfrom docsplit_hf import default_checkpoint"
        peft = f"""from peft import PeftModel
from transformers import {adapter_base}{more_imports}

base = {adapter_base}.from_pretrained({base})
model = PeftModel.from_pretrained(base, "{location}")"""
        return code_block(encoder) + "\n\n" + code_block(peft)
    sentence_transformers = f"""from sentence_transformers import SentenceTransformer

embeddings = SentenceTransformer("{location}").encode(["A document.", "Another one."])"""
    transformers = f"""from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{location}")
model = AutoModel.from_pretrained("{location}")"""
    note = ""
    if config.model_type == "longformer":
        note = (
            "\n\nOnly `DocumentEncoder` gives the first token global attention, as in training; with the other two, "
            "pass `global_attention_mask` yourself."
        )
    return "\n\n".join(map(code_block, (encoder, sentence_transformers, transformers))) + note
