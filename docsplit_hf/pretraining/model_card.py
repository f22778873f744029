"""Model card of a pretraining run: training data and settings, evaluation, loading."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.trainer_utils import has_length

from ..encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..training.markdown import code_block, describe_training, public_name, save_model_card, table
from .half_retrieval import evaluations_by_step
from .model import DocSplitForward
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
    adapter_base = None if is_merged else _class_of_adapter_base(trainer.model)
    evaluations = evaluations_by_step(trainer.state.log_history)
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
        views=_describe_views(collator),
        method=trainer.method,
        citation=citation,
        training=table(("", "this run"), _training_rows(trainer, evaluations).items()),
        evaluation=_evaluation_table(evaluations),
        loading=_loading(location, config, adapter_base),
    )


def describe_info_nce(args: ContrastiveTrainingArguments, view_count: int) -> str:
    """Describe the configured InfoNCE loss in a few words."""
    similarity = "" if args.similarity == "cosine" else f" of {args.similarity} products"
    head = " behind a projection head that the model is saved without" if args.projection_head else ""
    first = ", ".join(map(str, args.matryoshka_dims or ()))
    sizes = f", mean over all dimensions and the first {first}" if first else ""
    pairs = math.comb(view_count, 2)
    mean = f", mean over {pairs} pairs of views" if pairs > 1 else ""
    mlm = f", + {args.mlm_weight} x MLM ({args.mlm_input} input)" if args.mlm_weight else ""
    return f"InfoNCE{similarity}{head}, temperature {args.temperature}{mean}{sizes}{mlm}"


def _class_of_adapter_base(model: Any) -> str | None:
    """The class that loads the base model of an adapter; None without an adapter."""
    if not hasattr(model, "peft_config"):
        return None
    return "AutoModelForMaskedLM" if isinstance(model.get_base_model(), DocSplitForward) else "AutoModel"


def _has_docsplit_views(collator: DataCollatorForDocSplit) -> bool:
    """Whether the views are DocSplit's."""
    return get_views(collator.views) is VIEWS["docsplit"]


def _is_docsplit(args: ContrastiveTrainingArguments, collator: DataCollatorForDocSplit) -> bool:
    """Whether the run is DocSplit, and not one of the baselines."""
    return _has_docsplit_views(collator) and args.objective == "info_nce"


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


def _training_rows(trainer: Any, evaluations: list[dict[str, float]]) -> dict[str, str]:
    """The rows of the card's table about the run."""
    collator = trainer.training_collator
    config = trainer.encoder_config
    documents = "a stream"
    if trainer.train_dataset is not None and has_length(trainer.train_dataset):
        documents = f"{len(trainer.train_dataset):,}"
    options = [f"{name} {value}" for name, value in (collator.views_kwargs or {}).items()]
    cut_fraction = trainer.cut_fraction
    return {
        "Starting point": public_name(config.name_or_path or f"random weights ({config.model_type})"),
        "Training documents": documents,
        "Held-out documents": _held_out_documents(evaluations),
        "Views": ", ".join([collator.views_name, *options]),
        "Objective": trainer.args.objective,
        "Loss": trainer.describe_loss(),
        "Negatives per document": f"{trainer.count_negatives():,}",
        "Maximum length": f"{collator.max_length} tokens",
        "Tokens cut off by it": "unknown" if cut_fraction is None else f"{cut_fraction:.1%}",
        "Pooling": config.docsplit["pooling"],
        **describe_training(trainer.args, trainer.state, trainer.best_model_is_loaded, "documents"),
    }


def _held_out_documents(evaluations: list[dict[str, float]]) -> str:
    """The number of held-out documents of the last evaluation, computed from the recall of random guessing."""
    last = evaluations[-1] if evaluations else {}
    for name, chance in last.items():
        if name.endswith("chance_recall@1"):
            return f"{round(1 / chance):,}" if chance else "none"
    return "none"


def _describe_views(collator: DataCollatorForDocSplit) -> str:
    """Describe the views of the run."""
    if _has_docsplit_views(collator):
        return _describe_docsplit_views(collator.views_kwargs or {})
    described = inspect.getdoc(get_views(collator.views)) or "made by a function without a description."
    count = "Two" if collator.view_count == 2 else collator.view_count
    return f"{count} views of each document, `{collator.views_name}`: {described.splitlines()[0]}"


def _describe_docsplit_views(options: Mapping[str, Any]) -> str:
    """Describe DocSplit's views with these options."""
    count = options.get("parts", 2)
    parts = "two halves" if count == 2 else f"{count} parts"
    text = f"The sentences of each document are assigned at random to {parts}, its views."
    if count == 1:
        text = "Each document is its own only view."
    spread = options.get("probability_spread")
    if spread:
        text += (
            f" The probability of the second half was drawn anew for each, from {0.5 - spread:g} to {0.5 + spread:g}."
        )
    max_tokens = options.get("max_tokens")
    if max_tokens:
        text += f" Of a view of more than {max_tokens} tokens, sentences were drawn at random until it had so many."
    return text


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
