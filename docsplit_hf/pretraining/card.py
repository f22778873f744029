"""The model card of a pretraining run: what was trained on what, how well it does, how to load it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.trainer_utils import has_length

from ..models.checkpoints.checkpoint import DEFAULT_CHECKPOINT
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
    """Write ``README.md`` of a ``ContrastiveTrainer``'s run; ``location``: a name on the Hub or a folder."""
    args, collator, config, documents = trainer.args, trainer.training_collator, trainer.encoder_config, None
    if trainer.train_dataset is not None and has_length(trainer.train_dataset):
        documents = len(trainer.train_dataset)
    adapter_base = None  # of an adapter, the class that its base model is loaded with
    if hasattr(trainer.model, "peft_config") and not is_merged:
        has_head = isinstance(trainer.model.get_base_model(), DocSplitForward)
        adapter_base = "AutoModelForMaskedLM" if has_head else "AutoModel"
    base = config.name_or_path or None
    options = collator.views_kwargs or {}
    has_docsplit_views = get_views(collator.views) is VIEWS["docsplit"]
    is_docsplit = has_docsplit_views and args.objective == "info_nce"
    citation = DOCSPLIT_CITATION if is_docsplit else BASELINE_CITATION
    if args.objective == "distillation":
        citation = f"Cite the encoder that it was distilled from: {public_name(args.teacher)}."
    evaluations = evaluations_by_step(trainer.state.log_history)
    metadata = {
        "library_name": "peft" if adapter_base else "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "base_model": base if base and public_name(base) == base else None,
        "tags": [
            *(["docsplit"] if is_docsplit else []),
            "document-embeddings",
            *(["contrastive-pretraining"] if args.compares_views else []),
            "feature-extraction",
        ],
    }
    chance = next((value for name, value in (evaluations or [{}])[-1].items() if name.endswith("chance_recall@1")), 0)
    training = {
        "Starting point": public_name(base or f"random weights ({config.model_type})"),
        "Training documents": "a stream" if documents is None else f"{documents:,}",
        "Held-out documents": f"{round(1 / chance):,}" if chance else "none",
        "Views": ", ".join([collator.views_name, *(f"{key} {value}" for key, value in options.items())]),
        "Objective": args.objective,
        "Loss": trainer.describe_loss(),
        "Negatives per document": f"{trainer.count_negatives():,}",
        "Maximum length": f"{collator.max_length} tokens",
        "Tokens cut off by it": "unknown" if trainer.cut_fraction is None else f"{trainer.cut_fraction:.1%}",
        "Pooling": config.docsplit["pooling"],
        **describe_training(args, trainer.state, trainer.best_model_is_loaded, "documents"),
    }
    save_model_card(
        folder,
        __package__,
        location,
        metadata,
        kind="adapter (LoRA)" if adapter_base else "encoder",
        dimensions=config.hidden_size,
        views=_docsplit_views(options) if has_docsplit_views else _purpose(collator),
        method=trainer.method,
        citation=citation,
        training=table(("", "this run"), training.items()),
        evaluation=_evaluation_table(evaluations),
        loading=_loading(location, config, adapter_base),
    )


def describe_info_nce(args: ContrastiveTrainingArguments, view_count: int) -> str:
    """InfoNCE, as it is configured, in a few words."""
    similarity = "" if args.similarity == "cosine" else f" of {args.similarity} products"
    head = " behind a projection head that the model is saved without" if args.projection_head else ""
    first = ", ".join(map(str, args.matryoshka_dims or ()))
    sizes = f", mean over all dimensions and the first {first}" if first else ""
    pairs = math.comb(view_count, 2)
    mean = f", mean over {pairs} pairs of views" if pairs > 1 else ""
    mlm = f", + {args.mlm_weight} x MLM ({args.mlm_input} input)" if args.mlm_weight else ""
    return f"InfoNCE{similarity}{head}, temperature {args.temperature}{mean}{sizes}{mlm}"


def _docsplit_views(options: Mapping[str, Any]) -> str:
    count = options.get("parts", 2)
    parts = "two halves" if count == 2 else f"{count} parts"
    text = f"The sentences of each document are assigned at random to {parts}, its views."
    if count == 1:
        text = "Each document is its own only view."
    if spread := options.get("probability_spread"):
        text += (
            f" The probability of the second half was drawn anew for each, from {0.5 - spread:g} to {0.5 + spread:g}."
        )
    if max_tokens := options.get("max_tokens"):
        text += f" Of a view of more than {max_tokens} tokens, sentences were drawn at random until it had so many."
    return text


def _purpose(collator: DataCollatorForDocSplit) -> str:
    described = inspect.getdoc(get_views(collator.views)) or "made by a function without a description."
    count = "Two" if collator.view_count == 2 else collator.view_count
    return f"{count} views of each document, `{collator.views_name}`: {described.splitlines()[0]}"


def _evaluation_table(evaluations: list[dict[str, Any]]) -> str:
    if not evaluations:
        return "No held-out documents were evaluated in this run."
    names = [name for name in evaluations[0] if name.startswith("eval_") and name.endswith(("mrr", "@1", "@10"))]
    chosen = [evaluations[0], evaluations[-1]] if len(evaluations) > 1 else evaluations
    header = ("", *(f"step {logs['step']:,}" for logs in chosen))
    return table(header, [(name.removeprefix("eval_"), *(f"{logs[name]:.4f}" for logs in chosen)) for name in names])


def _loading(location: str, config: PretrainedConfig, adapter_base: str | None) -> str:
    encoder = f"""from docsplit_hf import DocumentEncoder

encoder = DocumentEncoder.from_pretrained("{location}")
embeddings = encoder.encode(["A document.", "Another one."])  # float32, (2, {config.hidden_size})"""
    if adapter_base:
        base, ours = f'"{config.name_or_path}"', ""
        if config.name_or_path == DEFAULT_CHECKPOINT:
            base, ours = "default_checkpoint()", "\n\nfrom docsplit_hf import default_checkpoint"
        others = f"""from peft import PeftModel
from transformers import {adapter_base}{ours}

base = {adapter_base}.from_pretrained({base})
model = PeftModel.from_pretrained(base, "{location}")"""
        return code_block(encoder) + "\n\n" + code_block(others)
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
