"""The runs of the study at the size of BERT base, as options of docsplit pretrain; their order and their cost."""

from __future__ import annotations

import math
from typing import NamedTuple

from experiments.study.study_runs import METHODS, STEPS, Options

# The claim of the study needs the first four: halves, crops, SimCSE and sampled parts.
FIRST_METHODS = ("docsplit_without_mlm", "cropping", "simcse", "docsplit_sampled_parts")
OTHER_METHODS = ("docsplit", "simcse_long", "inverse_cloze", "mlm")
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}  # BERT's own, which SimCSE needs
SPECIAL_TOKENS = 2

# Estimates for an H100-class card and an encoder of the size of BERT base; measured times replace them during a study.
TOKENS_PER_SECOND = 600_000
SECONDS_PER_STEP = 0.025  # at least, however small the batch
SECONDS_PER_EVALUATION = 8.0


class Stage(NamedTuple):
    """A stage of training the start."""

    layers: int
    share: float  # of the time


class Size(NamedTuple):
    """Sizes of the encoder, of its training and of the evaluation."""

    vocab_size: int
    vocabulary_texts: int  # articles that the vocabulary is trained on
    hidden_size: int
    stages: tuple[Stage, ...]  # of training the start, each with a multiple of the layers of the one before
    start_batch: int  # rows in a step of the start
    start_rate: float
    timed_steps: int  # of a stage, whose time decides how many steps there are
    documents: int  # of each run, whatever its batch
    rates: dict[int, tuple[float, float]]  # by the size of the batch, the likelier rate first
    seeds: tuple[int, ...]
    tokens_at_once: int  # in a forward pass of MLM; larger batches are accumulated
    shots: tuple[int, ...]  # training examples per class
    draws: int  # of these examples
    tuning_draws: int  # of the examples by which the learning rate is chosen
    max_train_examples: int
    max_test_examples: int


BASE = Size(
    vocab_size=30_522,
    vocabulary_texts=20_000,
    hidden_size=768,
    stages=(Stage(3, 0.2), Stage(6, 0.25), Stage(12, 0.55)),
    start_batch=128,
    start_rate=3e-4,
    timed_steps=40,
    documents=72_000,
    rates={36: (1e-4, 3e-5), 512: (3e-4, 1e-4)},  # about proportional to the square root of the batch
    seeds=(0, 1),
    tokens_at_once=131_072,  # 60 GB with views that have the maximum length
    shots=(1, 5, 20),
    draws=10,
    tuning_draws=5,
    max_train_examples=2_000,
    max_test_examples=1_000,
)
TINY = BASE._replace(
    vocab_size=1_000,
    vocabulary_texts=300,
    hidden_size=64,
    stages=(Stage(1, 0.5), Stage(2, 0.5)),
    start_batch=16,
    start_rate=1e-3,
    timed_steps=6,
    documents=96,
    rates={6: (1e-3, 3e-4), 24: (3e-3, 1e-3)},
    seeds=(0,),
    tokens_at_once=1_024,
    shots=(1, 5),
    draws=3,
    tuning_draws=2,
    max_train_examples=70,
    max_test_examples=35,
)


class BaseRun(NamedTuple):
    """A method with a batch, a learning rate and a seed."""

    method: str
    batch: int
    rate: float
    seed: int

    @property
    def name(self) -> str:
        """The folder of its checkpoint, and its name in messages."""
        return f"{self.method}/batch{self.batch}/{self.rate:g}/seed{self.seed}"


def planned_runs(size: Size) -> list[BaseRun]:
    """All runs, the most valuable first."""
    runs = []
    for methods in (FIRST_METHODS, OTHER_METHODS):
        for seed in size.seeds:
            for number in range(2):
                for batch, rates in size.rates.items():
                    runs += [BaseRun(method, batch, rates[number], seed) for method in methods]
    return runs


def run_options(run: BaseRun, size: Size, max_length: int) -> Options:
    """The options of a run that depend on its method, batch, rate and seed."""
    own = dict(METHODS[run.method])
    steps = steps_of(run, size)
    if "max_tokens" in own.get("views_kwargs", {}):
        own["views_kwargs"] = own["views_kwargs"] | {"max_tokens": max_length - SPECIAL_TOKENS}
    own |= {
        "pooling": "mean",
        "max_length": max_length,
        "per_device_train_batch_size": run.batch,
        "max_steps": steps,
        "warmup_steps": steps // 10,
        "lr_scheduler_type": "linear",
        "learning_rate": run.rate,
        "seed": run.seed,
        "config_overrides": DROPOUT,
        "logging_steps": max(1, steps // 20),
    }
    parts = parts_of_batch(run, size, max_length)
    if own.get("objective") == "mlm":  # the other objectives halve a batch that does not fit by themselves
        own |= {"per_device_train_batch_size": run.batch // parts, "gradient_accumulation_steps": parts}
    return own


def steps_of(run: BaseRun, size: Size) -> int:
    """The number of steps: as many tokens for each method, in steps of this batch."""
    return size.documents // run.batch * METHODS[run.method].get("max_steps", STEPS) // STEPS


def tokens_per_document(run: BaseRun, max_length: int) -> int:
    """The most tokens that the encoder reads of a document in a step; the masked copy of a view counts, too."""
    own = METHODS[run.method]
    views = own.get("views_kwargs", {}).get("parts", 2)
    with_masked_copy = own.get("mlm_weight") != 0 and own.get("objective") != "mlm"
    return views * max_length * (2 if with_masked_copy else 1)


def parts_of_batch(run: BaseRun, size: Size, max_length: int) -> int:
    """The number of forward passes of a batch: a power of two."""
    passes = run.batch * tokens_per_document(run, max_length) / size.tokens_at_once
    return 1 if passes <= 1 else 2 ** math.ceil(math.log2(passes))


def expected_seconds(run: BaseRun, size: Size, max_length: int) -> float:
    """The time of training and embedding on an H100-class card."""
    steps = steps_of(run, size)
    tokens = steps * run.batch * tokens_per_document(run, max_length)
    return max(tokens / TOKENS_PER_SECOND, steps * SECONDS_PER_STEP) + SECONDS_PER_EVALUATION
