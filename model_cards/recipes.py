"""Recipes: how models that cannot be trained here would be, at what cost, and what the papers report of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WIKIPEDIA = "--dataset_name wikimedia/wikipedia --dataset_config_name 20231101.en"
CHUNKS = (
    "If the GPU's memory is not enough, add `--forward_chunk_size {}`: the same batch and the same gradients, for one "
    "more forward pass of the halves."
)


@dataclass(frozen=True)
class Recipe:
    """A model that can be trained with a command, and has not been trained here.

    Args:
        name: Its name, of its folder here.
        title: Its title.
        base_model: What it starts from, on the Hub. All are under Apache 2.0.
        summary: What it is for, in a few sentences.
        command: How to train it, for bash. Steps, batch and length of the estimate are read from it.
        notes: What to know before running it.
        model_type: The architecture, as in ``config.json``.
        overrides: Where its configuration differs from transformers' defaults.
        packed: Whether it runs without padding.
        utilization: The share of the GPU's peak that the estimate assumes.
        paper_system: The papers' name of the model that it repeats; None where the papers have none.
        paper_baselines: The papers' systems that stand beside it.
        paper_days: How long the papers' run took.
        paper_gpu: On which GPU.
        paper_batch: Documents a step there.
    """

    name: str
    title: str
    base_model: str
    summary: str
    command: str
    notes: str
    model_type: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    packed: bool = True
    utilization: float = 0.3
    paper_system: str | None = None
    paper_baselines: tuple[str, ...] = ()
    paper_days: int | None = None
    paper_gpu: str | None = None
    paper_batch: int | None = None


RECIPES = (
    Recipe(
        name="docsplit-bert-base",
        title="DocSplit on BERT-base: a recipe",
        base_model="google-bert/bert-base-uncased",
        summary="The papers' first model: BERT-base, trained further by DocSplit on English Wikipedia. It "
        "reads no more than $max_length tokens: of each half in training, of a whole text afterwards.",
        command=f"""python examples/run_pretrain.py --model_name_or_path google-bert/bert-base-uncased \\
    {WIKIPEDIA} \\
    --max_length 512 --per_device_train_batch_size 36 --max_steps 172745 --learning_rate 5e-5 \\
    --bf16 --dataloader_num_workers 4 --logging_steps 100 --save_steps 5000 --seed 0 \\
    --output_dir output/docsplit-bert-base""",
        notes=CHUNKS.format(12),
        model_type="bert",
        paper_system="DocSplit_bert",
        paper_baselines=("BERT", "CT-BERT", "SimCSE", "SimCSE_long", "Contriever"),
        paper_days=4,
        paper_gpu="an Nvidia 2080",
        paper_batch=36,
    ),
    Recipe(
        name="docsplit-longformer-base",
        title="DocSplit on Longformer-base: a recipe",
        base_model="allenai/longformer-base-4096",
        summary="The papers' second model: Longformer-base, trained further by DocSplit on English Wikipedia. It reads "
        "$max_length tokens. Its first token, which is the embedding, attends to all of them.",
        command=f"""python examples/run_pretrain.py --model_name_or_path allenai/longformer-base-4096 \\
    {WIKIPEDIA} \\
    --max_length 4096 --per_device_train_batch_size 12 --max_steps 518235 --learning_rate 5e-5 \\
    --bf16 --dataloader_num_workers 4 --logging_steps 100 --save_steps 5000 --seed 0 \\
    --output_dir output/docsplit-longformer-base""",
        notes="Longformer's attention cannot be run without padding, and one long article makes a whole batch long: "
        "most of the cost is padding. The papers do not say at which length they trained; the time that they "
        "took suggests a shorter one. A smaller `--max_length` makes it cheaper. " + CHUNKS.format(4),
        model_type="longformer",
        overrides={
            "vocab_size": 50265,
            "max_position_embeddings": 4098,
            "attention_window": [512] * 12,
            "type_vocab_size": 1,
        },
        packed=False,
        utilization=0.1,
        paper_system="DocSplit_long",
        paper_baselines=("LongFormer", "BigBird"),
        paper_days=4,
        paper_gpu="an Nvidia Quadro RTX 8000",
        paper_batch=12,
    ),
    Recipe(
        name="docsplit-modernbert-base",
        title="DocSplit on ModernBERT-base: a recipe",
        base_model="answerdotai/ModernBERT-base",
        summary="An encoder of today in the place of the papers' two: ModernBERT-base, trained further by DocSplit on "
        "English Wikipedia. It reads long documents as Longformer does, and runs without padding.",
        command=f"""python examples/run_pretrain.py --model_name_or_path answerdotai/ModernBERT-base \\
    {WIKIPEDIA} \\
    --max_length 4096 --per_device_train_batch_size 36 --max_steps 172745 --learning_rate 5e-5 \\
    --bf16 --dataloader_num_workers 4 --logging_steps 100 --save_steps 5000 --seed 0 \\
    --output_dir output/docsplit-modernbert-base""",
        notes="Batch, steps and learning rate are the papers' for BERT; nobody has looked for better ones. "
        + CHUNKS.format(12),
        model_type="modernbert",
    ),
)
