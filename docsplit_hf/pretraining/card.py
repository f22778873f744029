"""The model card of a pretraining run: what was trained on what, how well it does, how to load it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..training.markdown import code_block, public_name, table
from ..training.model_card import save_model_card
from .collation.views import VIEWS, get_views
from .half_retrieval import evaluations_by_step

if TYPE_CHECKING:
    from transformers import PretrainedConfig, TrainerState

    from .arguments import ContrastiveTrainingArguments
    from .collation.collator import DataCollatorForDocSplit

DOCSPLIT_CITATION = "DocSplit: Simple Contrastive Pretraining for Large Document Embeddings. Yujie Wang, Mike Izbicki."
BASELINE_CITATION = "This is a baseline for DocSplit, not DocSplit itself: cite the method that it was trained by."


@dataclass
class PretrainingFacts:
    """What the card says of a run, taken from the run itself."""

    location: str  # a name on the Hub, or the folder that it is saved in
    arguments: ContrastiveTrainingArguments
    collator: DataCollatorForDocSplit
    method: str  # how documents are trained on, in a sentence or two
    loss: str  # in a few words
    negatives: int  # per document
    config: PretrainedConfig
    processes: int
    documents: int | None  # None: a stream
    state: TrainerState
    best_is_loaded: bool  # else the weights are those of the last step
    cut_fraction: float | None  # of the tokens, by the maximum length; None before the first log
    is_adapter: bool
    has_head: bool  # a masked-LM head, on which an adapter has to be put then


def save_card(folder: str | Path, facts: PretrainingFacts) -> None:
    """Write ``README.md``."""
    arguments, collator = facts.arguments, facts.collator
    base = facts.config.name_or_path or None
    options = collator.views_kwargs or {}
    schedule = "piecewise constant" if arguments.learning_rate_steps else arguments.lr_scheduler_type.value
    has_docsplit_views = get_views(collator.views) is VIEWS["docsplit"]
    is_docsplit = has_docsplit_views and arguments.objective == "info_nce"
    evaluations = evaluations_by_step(facts.state.log_history)
    metadata = {
        "library_name": "peft" if facts.is_adapter else "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "base_model": base if base and public_name(base) == base else None,
        "tags": [
            *(["docsplit"] if is_docsplit else []),
            "document-embeddings",
            *(["contrastive-pretraining"] if arguments.objective != "mlm" else []),
            "feature-extraction",
        ],
    }
    batch = f"{arguments.per_device_train_batch_size} documents x {facts.processes} processes"
    if arguments.gradient_accumulation_steps > 1:
        batch += f" x {arguments.gradient_accumulation_steps} accumulated"
    training = {
        "Starting point": public_name(base or f"random weights ({facts.config.model_type})"),
        "Data": public_name(arguments.data_description or "not described"),
        "Training documents": "a stream" if facts.documents is None else f"{facts.documents:,}",
        "Held-out documents": f"{round(1 / chance):,}" if (chance := _chance(evaluations)) else "none",
        "Optimizer steps": f"{facts.state.global_step:,}",
        "Weights": f"of step {facts.state.best_global_step:,}, the best"
        if facts.best_is_loaded
        else "of the last step",
        "Views": ", ".join([collator.views_name, *(f"{key} {value}" for key, value in options.items())]),
        "Objective": arguments.objective,
        "Loss": facts.loss,
        "Batch": batch,
        "Negatives per document": f"{facts.negatives:,}",
        "Maximum length": f"{collator.max_length} tokens",
        "Tokens cut off by it": "unknown" if facts.cut_fraction is None else f"{facts.cut_fraction:.1%}",
        "Pooling": facts.config.docsplit["pooling"],
        "Learning rate": f"{arguments.learning_rate:g} ({schedule}), {arguments.optim.value}",
        "Seed": f"{arguments.seed}",
    }
    save_model_card(
        folder,
        __package__,
        facts.location,
        metadata,
        kind="adapter (LoRA)" if facts.is_adapter else "encoder",
        dimensions=facts.config.hidden_size,
        views=_docsplit_views(options) if has_docsplit_views else _purpose(collator),
        method=facts.method,
        citation=DOCSPLIT_CITATION if is_docsplit else BASELINE_CITATION,
        training=table(("", "this run"), training.items()),
        evaluation=_evaluation_table(evaluations),
        loading=_loading(facts),
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
    """How the views of docsplit are made, with its options."""
    parts = f"{options['parts']} parts" if options.get("parts", 2) > 2 else "two halves"
    text = f"The sentences of each document are assigned at random to {parts}, its views."
    if spread := options.get("probability_spread"):
        text += (
            f" The probability of the second half was drawn anew for each, from {0.5 - spread:g} to {0.5 + spread:g}."
        )
    if max_tokens := options.get("max_tokens"):
        text += f" Of a view of more than {max_tokens} tokens, sentences were drawn at random until it had so many."
    return text


def _purpose(collator: DataCollatorForDocSplit) -> str:
    """How the views are made, by the first line of the view function's docstring."""
    described = inspect.getdoc(get_views(collator.views)) or "made by a function without a description."
    count = "Two" if collator.view_count == 2 else collator.view_count
    return f"{count} views of each document, `{collator.views_name}`: {described.splitlines()[0]}"


def _chance(evaluations: list[dict[str, Any]]) -> float:
    """What guessing would recall: one over the number of held-out documents. 0 where nothing was evaluated."""
    values = [value for name, value in (evaluations or [{}])[-1].items() if name.endswith("chance_recall@1")]
    return values[0] if values else 0.0


def _evaluation_table(evaluations: list[dict[str, Any]]) -> str:
    if not evaluations:
        return "No held-out documents were evaluated in this run."
    names = [name for name in evaluations[0] if name.startswith("eval_") and name.endswith(("mrr", "@1", "@10"))]
    chosen = [evaluations[0], evaluations[-1]] if len(evaluations) > 1 else evaluations
    header = ("", *(f"step {logs['step']:,}" for logs in chosen))
    return table(header, [(name.removeprefix("eval_"), *(f"{logs[name]:.4f}" for logs in chosen)) for name in names])


def _loading(facts: PretrainingFacts) -> str:
    encoder = f"""from docsplit_hf import DocumentEncoder

encoder = DocumentEncoder.from_pretrained("{facts.location}")
embeddings = encoder.encode(["A document.", "Another one."])  # float32, (2, {facts.config.hidden_size})"""
    if facts.is_adapter:
        base_class = "AutoModelForMaskedLM" if facts.has_head else "AutoModel"
        base, ours = f'"{facts.config.name_or_path}"', ""
        if facts.config.name_or_path == DEFAULT_CHECKPOINT:
            base, ours = "default_checkpoint()", "\n\nfrom docsplit_hf import default_checkpoint"
        others = f"""from peft import PeftModel
from transformers import {base_class}{ours}

base = {base_class}.from_pretrained({base})
model = PeftModel.from_pretrained(base, "{facts.location}")"""
        return code_block(encoder) + "\n\n" + code_block(others)
    sentence_transformers = f"""from sentence_transformers import SentenceTransformer

embeddings = SentenceTransformer("{facts.location}").encode(["A document.", "Another one."])"""
    transformers = f"""from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{facts.location}")
model = AutoModel.from_pretrained("{facts.location}")"""
    note = ""
    if facts.config.model_type == "longformer":
        note = (
            "\n\nOnly `DocumentEncoder` gives the first token global attention, as in training; with the other two, "
            "pass `global_attention_mask` yourself."
        )
    return "\n\n".join(map(code_block, (encoder, sentence_transformers, transformers))) + note
