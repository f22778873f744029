"""The checkpoints that are released, and what their cards cannot measure: to be filled in when one is trained."""

from __future__ import annotations

from dataclasses import dataclass

from docsplit_hf.models.checkpoints.default import DEFAULT_CHECKPOINT as SHIPPED


@dataclass(frozen=True)
class Stage:
    """A command of the training. Its seed, steps, batch and length are read from the command.

    Args:
        title: What it does, in a few words.
        command: The command as it was given, for bash.
        hours: How long it took.
        date: The day on which it ended, as 2024-01-31.
        ran_on: The machine, as ``docsplit_hf.experiments.records.provenance.describe_run`` says it.
        versions: Of the libraries.
        steps: Optimizer steps, where the command has no --max_steps.
    """

    title: str
    command: str
    hours: float | None
    date: str | None
    ran_on: str | None
    versions: dict[str, str] | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A released checkpoint.

    Args:
        name: Its name, of its folder here, and on the Hub behind the user.
        folder: Where its files are, from the root of the project. Its size and shape are read there, and the card is
            written there too.
        results: The ``results.json`` with its measurements, from the root of the project.
        systems: What the systems are called in the card, by their names in the results; the checkpoint first.
        documents: How many documents there were.
        held_out: How many of them were not trained on.
        words: How many words they have.
        stages: Its training.
        shots: Examples per class in the table of few examples.
    """

    name: str
    folder: str
    results: str
    systems: dict[str, str]
    documents: int
    held_out: int
    words: int
    stages: tuple[Stage, ...]
    shots: int = 5


VERSIONS = {"Python": "3.11.7", "docsplit_hf": "0.1.0", "torch": "2.13.0+cpu", "transformers": "5.23.0"}

CHECKPOINTS = (
    Checkpoint(
        name=SHIPPED,
        folder=f"docsplit_hf/models/checkpoints/{SHIPPED}",
        results="docs/results/study/results.json",
        systems={
            SHIPPED: SHIPPED,
            f"{SHIPPED}/start": "the same model before DocSplit",
            "tfidf": "TF-IDF",
        },
        documents=40_000,
        held_out=500,
        words=33_955_125,
        stages=(
            Stage(
                title="Masked language modelling, from random weights",
                command="""accelerate launch --config_file examples/accelerate_configs/cpu_2_processes.yaml \\
    examples/run_pretrain.py --use_cpu --from_scratch --dataset_name wikipedia.jsonl \\
    --vocab_size 16384 --hidden_size 256 --num_hidden_layers 2 --objective mlm --pooling mean --max_length 128 \\
    --per_device_train_batch_size 8 --max_steps 2000 --learning_rate 1e-3 --lr_scheduler_type linear \\
    --warmup_steps 100 --weight_decay 0.01 --bf16 --seed 0 --save_steps 1000 --load_best_model_at_end false \\
    --output_dir output/study/start""",
                hours=round(832.2 / 3600, 2),
                date="2026-11-22",
                ran_on="AMD EPYC, 2 processes of 1 thread each",
                versions=VERSIONS,
            ),
            Stage(
                title="DocSplit, from there",
                command="""accelerate launch --config_file examples/accelerate_configs/cpu_2_processes.yaml \\
    examples/run_pretrain.py --use_cpu --model_name_or_path output/study/start --dataset_name wikipedia.jsonl \\
    --mlm_weight 0 --pooling mean --max_length 64 --views_kwargs '{"max_tokens": 62, "parts": 3}' \\
    --per_device_train_batch_size 128 --max_steps 1600 --learning_rate 2e-3 --lr_scheduler_type linear \\
    --warmup_steps 50 --bf16 --seed 0 --save_steps 400 --load_best_model_at_end false \\
    --output_dir output/study/docsplit-small-en""",
                hours=round(4165 / 3600, 2),
                date="2026-11-22",
                ran_on="AMD EPYC, 2 processes of 1 thread each",
                versions=VERSIONS,
            ),
        ),
    ),
)
