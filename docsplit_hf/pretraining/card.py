"""What a saved checkpoint holds beside the stock files: sentence-transformers' files and a model card of the run."""

from __future__ import annotations

import inspect
import json
import string
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.checkpoints.default import DEFAULT_CHECKPOINT
from ..models.portable.pooling import SENTENCE_TRANSFORMERS_POOLING
from ..training.markdown import code_block, public_name, table
from .collation.views import VIEWS, get_views
from .half_retrieval import evaluations_by_step

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from .arguments import ContrastiveTrainingArguments
    from .collation.collator import DataCollatorForDocSplit


DOCSPLIT_CITATION = "DocSplit: Simple Contrastive Pretraining for Large Document Embeddings. Yujie Wang, Mike Izbicki."
BASELINE_CITATION = "This is a baseline for DocSplit, not DocSplit itself: cite the method that it was trained by."


def save_sentence_transformers_files(folder: str | Path, config: PretrainedConfig) -> None:
    """Write what ``SentenceTransformer(folder)`` needs in order to give the embeddings of ``DocumentEncoder``.

    In a folder with an adapter only the settings are written, for ``DocumentEncoder`` to read: sentence-transformers
    would put the adapter on an encoder without a head, where its names do not fit.

    Args:
        folder: Where the checkpoint is saved.
        config: The configuration of the model, with ``config.docsplit``.

    Example:

        >>> import pathlib, tempfile
        >>> from transformers import BertConfig
        >>> config = BertConfig(hidden_size=8, docsplit={"pooling": "mean", "max_length": 64})
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> save_sentence_transformers_files(folder, config)
        >>> sorted(path.name for path in folder.iterdir())
        ['1_Pooling', '2_Normalize', 'modules.json', 'sentence_bert_config.json']
    """
    folder = Path(folder)
    pooling = {
        "word_embedding_dimension": config.hidden_size,
        **{
            f"pooling_mode_{name}": name == SENTENCE_TRANSFORMERS_POOLING[config.docsplit["pooling"]]
            for name in SENTENCE_TRANSFORMERS_POOLING.values()
        },
    }
    _write_json(folder / "1_Pooling" / "config.json", pooling)
    length = {"max_seq_length": config.docsplit["max_length"], "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", length)
    if (folder / "adapter_config.json").exists():
        return
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    (folder / "2_Normalize").mkdir(exist_ok=True)
    _write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
    )


@dataclass
class PretrainingFacts:
    """What a model card says of a run, taken from the run itself.

    Args:
        location: Where it is loaded from: a name on the Hub, or the folder that it is saved in.
        arguments: The training arguments.
        collator: The collator, with its views and lengths.
        method: How documents are trained on, in a sentence or two.
        loss: The loss, in a few words.
        negatives: The number of negatives a document.
        config: The configuration of the model.
        processes: The number of processes.
        documents: The number of training documents, None for a stream.
        steps: Optimizer steps taken.
        best_step: The step of the best checkpoint if it is its weights that are saved, else None.
        log_history: The Trainer's logs.
        cut_fraction: The fraction of tokens that the maximum length cut off, None before the first log.
        is_adapter: Whether the folder holds an adapter instead of a model.
        has_head: Whether the model has a masked-LM head, on which an adapter has to be put then.
    """

    location: str
    arguments: ContrastiveTrainingArguments
    collator: DataCollatorForDocSplit
    method: str
    loss: str
    negatives: int
    config: PretrainedConfig
    processes: int
    documents: int | None
    steps: int
    best_step: int | None
    log_history: list[dict[str, Any]]
    cut_fraction: float | None
    is_adapter: bool
    has_head: bool


def save_card(folder: str | Path, facts: PretrainingFacts) -> None:
    """Write ``README.md``, the model card.

    Args:
        folder: Where the checkpoint is saved.
        facts: The facts of the run.
    """
    Path(folder, "README.md").write_text(render_card(facts), encoding="utf-8", errors="replace")


def render_card(facts: PretrainingFacts) -> str:
    """The model card as text: metadata for the Hub, then what was trained on what, how well it does, how to load it.

    Args:
        facts: The facts of the run.

    Returns:
        Markdown with a YAML head.
    """
    from huggingface_hub import ModelCardData

    arguments, collator = facts.arguments, facts.collator
    base = facts.config.name_or_path or None
    options = collator.views_kwargs or {}
    schedule = "piecewise constant" if arguments.learning_rate_steps else arguments.lr_scheduler_type.value
    has_docsplit_views = get_views(collator.views) is VIEWS["docsplit"]
    is_docsplit = has_docsplit_views and arguments.objective == "info_nce"
    evaluations = evaluations_by_step(facts.log_history)
    data = ModelCardData(
        library_name="peft" if facts.is_adapter else "sentence-transformers",
        pipeline_tag="feature-extraction",
        base_model=base if base and public_name(base) == base else None,
        tags=[
            *(["docsplit"] if is_docsplit else []),
            "document-embeddings",
            *(["contrastive-pretraining"] if arguments.objective != "mlm" else []),
            "feature-extraction",
        ],
    )
    batch = arguments.per_device_train_batch_size
    training = {
        "Starting point": public_name(base or f"random weights ({facts.config.model_type})"),
        "Data": public_name(arguments.data_description or "not described"),
        "Training documents": "a stream" if facts.documents is None else f"{facts.documents:,}",
        "Held-out documents": f"{round(1 / chance):,}" if (chance := _chance(evaluations)) else "none",
        "Optimizer steps": f"{facts.steps:,}",
        "Weights": "of the last step" if facts.best_step is None else f"of step {facts.best_step:,}, the best",
        "Views": ", ".join([collator.views_name, *(f"{key} {value}" for key, value in options.items())]),
        "Objective": arguments.objective,
        "Loss": facts.loss,
        "Batch": f"{batch} documents x {facts.processes} processes"
        + (
            f" x {arguments.gradient_accumulation_steps} accumulated"
            if arguments.gradient_accumulation_steps > 1
            else ""
        ),
        "Negatives per document": f"{facts.negatives:,}",
        "Maximum length": f"{collator.max_length} tokens",
        "Tokens cut off by it": "unknown" if facts.cut_fraction is None else f"{facts.cut_fraction:.1%}",
        "Pooling": facts.config.docsplit["pooling"],
        "Learning rate": f"{arguments.learning_rate:g} ({schedule}), {arguments.optim.value}",
        "Seed": f"{arguments.seed}",
    }
    packages = ("docsplit_hf", "transformers", "accelerate", "datasets", "torch")
    template = string.Template(files(__package__).joinpath("card.md").read_text(encoding="utf-8"))
    return template.substitute(
        metadata=data.to_yaml(),
        title=Path(facts.location).resolve().name,
        kind="adapter (LoRA)" if facts.is_adapter else "encoder",
        dimensions=facts.config.hidden_size,
        views=_docsplit_views(options) if has_docsplit_views else _purpose(collator),
        method=facts.method,
        citation=DOCSPLIT_CITATION if is_docsplit else BASELINE_CITATION,
        training=table(("", "this run"), training.items()),
        evaluation=_evaluation_table(evaluations),
        loading=_loading(facts),
        versions=", ".join(f"{package} {version(package)}" for package in packages),
    )


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


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
