"""The training runs of the study, as options of docsplit pretrain."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from experiments.study.long_start import BIGBIRD, LONGFORMER

Options = dict[str, Any]

START = "start"
CORPUS = "wikipedia.jsonl"
STEPS = 100
TUNING_STEPS = 60
ABLATION_STEPS = 250
# Tuning begins with these rates, and extends them for each pooling of each method until the best is an inner one.
POOLINGS = ("mean", "cls")
LEARNING_RATES = (2.5e-4, 1e-3)
FACTOR = 4
LOWEST_RATE = LEARNING_RATES[0] / FACTOR**2  # so few steps at a lower rate change next to nothing

# The common start: a BERT with random weights and a vocabulary of its own, trained by MLM alone.
START_OPTIONS: Options = {
    "from_scratch": True,
    "dataset_name": CORPUS,
    "vocab_size": 16384,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "objective": "mlm",
    "pooling": "mean",
    "max_length": 128,  # with 512, after 16 million tokens the loss was not below the entropy of word frequencies
    "per_device_train_batch_size": 8,
    "max_steps": 2000,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "linear",
    "warmup_steps": 100,
    "weight_decay": 0.01,
    "bf16": True,
    "seed": 0,
    "save_steps": 1000,
    "load_best_model_at_end": False,
}

# The first version of the checkpoint that ships: three short views, sampled from the whole document, of as many
# documents as two cores process in an hour.
SHIPPED = "docsplit-small-en"
SHIPPED_MAX_LENGTH = 512
SHIPPED_START = f"{SHIPPED}/start"  # the common start, measured at the same length as the shipped checkpoint
SHIPPED_OPTIONS: Options = {
    "model_name_or_path": "{folder}/start",
    "dataset_name": CORPUS,
    "mlm_weight": 0,
    "pooling": "mean",
    "max_length": 64,
    "views_kwargs": {"max_tokens": 62, "parts": 3},
    "per_device_train_batch_size": 128,
    "max_steps": 1600,
    "learning_rate": 2e-3,
    "lr_scheduler_type": "linear",
    "warmup_steps": 50,
    "bf16": True,
    "seed": 0,
    "save_steps": 400,
    "load_best_model_at_end": False,
}
TWO_PROCESSES = ("accelerate", "launch", "--config_file", "examples/accelerate_configs/cpu_2_processes.yaml")

# Shared options of all runs from the common start. Dropout is BERT's own: SimCSE's two views differ by it alone.
COMMON: Options = {
    "dataset_name": CORPUS,
    "pooling": "mean",  # methods override it with their best pooling
    "max_length": 64,  # with shorter views, two cores process more documents in an hour, and results are better
    "packing": "off",  # stock attention dropout, which drops each weight independently
    "per_device_train_batch_size": 64,
    "lr_scheduler_type": "linear",
    "config_overrides": {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
    "bf16": True,
    "use_cpu": True,
    "load_best_model_at_end": False,
    "num_proc": 1,
    "report_to": "none",
}

# Both poolings are tried for methods that name none: MLM trains no embedding; Contrastive Tension and Contriever's
# crops and inverse cloze are defined with the mean; DocSplit's variants use DocSplit's best pooling.
METHODS: dict[str, Options] = {
    "docsplit": {},
    "cropping": {
        "views": "cropping",
        "views_kwargs": {"ratio_min": 0.05, "deletion": 0.1},
        "pooling": "mean",
        "mlm_weight": 0,
    },
    "simcse_long": {"views": "simcse_long", "mlm_weight": 0},
    "simcse": {"views": "simcse", "mlm_weight": 0},
    "inverse_cloze": {
        "views": "inverse_cloze",
        "views_kwargs": {"keep_span": 0.1},
        "pooling": "mean",
        "mlm_weight": 0,
    },
    # DocSplit's variants with as many tokens as cropping: halves without MLM; halves sampled from the whole document,
    # like crops; and three sampled parts of two thirds of the documents.
    "docsplit_sampled_parts": {
        "pooling": "mean",
        "mlm_weight": 0,
        "views_kwargs": {"max_tokens": 62, "parts": 3},
        "max_steps": 2 * STEPS // 3,
    },
    "docsplit_sampled": {"pooling": "mean", "mlm_weight": 0, "views_kwargs": {"max_tokens": 62}},
    "docsplit_without_mlm": {"pooling": "mean", "mlm_weight": 0},
    "docsplit_papers": {"pooling": "cls", "per_device_train_batch_size": 36},
    "contrastive_tension": {"views": "simcse", "objective": "contrastive_tension", "pooling": "mean"},
    "mlm": {"objective": "mlm", "pooling": "mean"},
}

# Single changes of DocSplit, and the run that each is compared with: "docsplit", as among the methods; or the same
# without MLM, at two fifths of the cost. Wikipedia's articles have no one-sentence documents, so the two runs about
# them are on 20 Newsgroups.
WITHOUT_MLM: Options = {"mlm_weight": 0}
SAMPLED: Options = WITHOUT_MLM | {"views_kwargs": {"max_tokens": 62}}
POSTS: Options = WITHOUT_MLM | {"dataset_name": "{folder}/texts/20News.jsonl"}
ABLATIONS: dict[str, tuple[str, Options]] = {
    "without_mlm": ("docsplit", WITHOUT_MLM),
    "mlm_weight_1": ("docsplit", {"mlm_weight": 1}),
    "pooling_cls": ("without_mlm", WITHOUT_MLM | {"pooling": "cls"}),
    "projection_head": ("without_mlm", WITHOUT_MLM | {"projection_head": True}),
    "temperature_0.02": ("without_mlm", WITHOUT_MLM | {"temperature": 0.02}),
    "temperature_0.1": ("without_mlm", WITHOUT_MLM | {"temperature": 0.1}),
    "max_length_128": ("without_mlm", WITHOUT_MLM | {"max_length": 128}),
    "max_length_256": ("without_mlm", WITHOUT_MLM | {"max_length": 256}),
    "max_length_512": ("without_mlm", WITHOUT_MLM | {"max_length": 512}),
    "sampled_sentences": ("without_mlm", SAMPLED),
    "three_views": ("without_mlm", WITHOUT_MLM | {"views_kwargs": {"parts": 3}}),
    "no_dropout": ("without_mlm", WITHOUT_MLM | {"config_overrides": {}}),
    "batch_36": ("without_mlm", WITHOUT_MLM | {"per_device_train_batch_size": 36}),
    "batch_256": ("without_mlm", WITHOUT_MLM | {"per_device_train_batch_size": 256, "forward_chunk_size": 64}),
    "batch_1024": (  # as many documents as batch_256
        "batch_256",
        WITHOUT_MLM | {"per_device_train_batch_size": 1024, "forward_chunk_size": 64, "max_steps": ABLATION_STEPS // 4},
    ),
    "one_sentence_dropped": ("without_mlm", POSTS),
    "one_sentence_paired": ("one_sentence_dropped", POSTS | {"single_sentence": "dropout_pair"}),
    # Combinations of the changes that helped.
    "sampled_batch_256": ("docsplit", SAMPLED | {"per_device_train_batch_size": 256}),
    "sampled_batch_256_three_views": (
        "docsplit",
        SAMPLED | {"per_device_train_batch_size": 256, "views_kwargs": {"max_tokens": 62, "parts": 3}},
    ),
}
ABLATION_BASES = {name: base for name, (base, _) in ABLATIONS.items()}
# Removed options have records, but cannot be run again.
ABLATION_BASES |= {"mlm_shared_input": "docsplit", "probability_drawn": "without_mlm", "symmetric": "without_mlm"}

# The longer study: methods for twenty times the steps, measured at several steps, at their best rates of the table of
# tuning; SimCSE, which gains least, at a lower rate too.
LONGER_STEPS = 2000
SAVED_EVERY = 50
MEASURED_STEPS = (100, 250, 500, 1000, 2000)
LONGER_RATES = {
    "docsplit_without_mlm": 1e-3,
    "cropping": 1e-3,
    "simcse": 2.5e-4,
    "simcse_long": 1.5625e-5,
    "docsplit_sampled_parts": 1e-3,
    "simcse_slower": 6.25e-5,
    "inverse_cloze": 2.5e-4,
}

# Questions that the papers leave open, or claims that they do not test: single changes of DocSplit without MLM.
QUESTION_STEPS = 500
CORPORA = "{folder}/corpora"
DOCUMENTS = (1000, 4000, 16000)
QUESTIONS: dict[str, Options] = {
    "sentences": {},
    "words": {"segmenter": "whitespace"},
    **{f"documents_{count}": {"dataset_name": f"{CORPORA}/first_{count}.jsonl"} for count in DOCUMENTS},
    "shuffled": {"dataset_name": f"{CORPORA}/shuffled.jsonl", "segmenter": "newline"},
}

# The methods with first-token pooling for the measurement of attention, at their best rates of the table of tuning.
FIRST_TOKEN_RATES = {"docsplit": 1e-3, "simcse": 2.5e-4}

# Encoders of long documents made from the start, trained further by either objective with the papers' batch size.
# BigBird computes in float32, because its sparse attention in transformers mixes types under autocast and fails.
LONG_KINDS: dict[str, Options] = {LONGFORMER: {"bf16": True}, BIGBIRD: {"bf16": False}}
LONG_STEPS = 120
LONG_LENGTH = 1024
LONG_RATE = 5e-4
LONG_OBJECTIVES: dict[str, Options] = {"mlm": {"objective": "mlm"}, "docsplit": WITHOUT_MLM}
LONG: Options = {
    "model_name_or_path": "{folder}/long/{kind}_start",
    "max_length": LONG_LENGTH,
    "per_device_train_batch_size": 12,
    "max_steps": LONG_STEPS,
    "save_steps": LONG_STEPS // 5,
    "test_size": 36,
}

TASKS = {
    "20News": "20news",
    "BBCNews": "bbc_news",
    "arXiv": "arxiv_abstracts",
    "FakeNews": "fakenews_small",
}

# Domain adaptation, the everyday use: a good encoder trained further on the unlabeled training texts of one task.
ADAPTED = "sentence-transformers/all-MiniLM-L6-v2"
ADAPTATION: Options = COMMON | {
    "model_name_or_path": ADAPTED,
    "max_steps": 75,
    "save_steps": 75,
    "warmup_steps": 8,
    "learning_rate": 5e-5,
    "mlm_weight": 0,
    "config_overrides": {},  # it has dropout 0.1
    "seed": 0,
}
ADAPTATION_RECIPES: dict[str, Options] = {
    "docsplit": {"views": "docsplit"},
    "simcse_long": {"views": "simcse_long"},
    "docsplit_best_recipe": {  # the shipped checkpoint's views, for half an hour
        "views": "docsplit",
        "views_kwargs": SHIPPED_OPTIONS["views_kwargs"],
        "max_steps": 200,
        "save_steps": 200,
        "warmup_steps": 20,
    },
}


@dataclass(frozen=True)
class Run:
    """A training run and the folder of its checkpoint."""

    name: str  # the folder below the output folder, and the name in the tables
    options: Options = field(default_factory=dict)  # without output_dir
    launcher: tuple[str, ...] = ("python",)

    def command(self, folder: str) -> list[str]:
        """The command line."""
        options = self.options | {"output_dir": f"{folder}/{self.name}"}
        return [*self.launcher, "-m", "experiments.pretrain", *as_arguments(options)]


def start_run() -> Run:
    """The run that trains the common start, in two processes."""
    return Run(START, START_OPTIONS | {"use_cpu": True}, TWO_PROCESSES)


def shipped_run(folder: str) -> Run:
    """The run that trained the first version of the checkpoint that ships, in two processes."""
    start = SHIPPED_OPTIONS["model_name_or_path"].format(folder=folder)
    return Run(SHIPPED, SHIPPED_OPTIONS | {"model_name_or_path": start, "use_cpu": True}, TWO_PROCESSES)


def poolings_of(method: str) -> tuple[str, ...]:
    """The poolings to tune for a method: the one that it names, or both."""
    return (METHODS[method]["pooling"],) if "pooling" in METHODS[method] else POOLINGS


def tuning_run(folder: str, method: str, pooling: str, rate: float) -> Run:
    """A method with a pooling and a learning rate, for fewer steps."""
    options = _with_pooling(method, pooling)
    options |= {"max_steps": TUNING_STEPS * options.get("max_steps", STEPS) // STEPS}
    return _run(folder, f"tuning/{method}/{pooling}_{rate:g}", options, rate, 0)


def method_run(folder: str, method: str, pooling: str, learning_rate: float, seed: int) -> Run:
    """A method with its pooling and its learning rate."""
    return _run(folder, f"methods/{method}/seed{seed}", _with_pooling(method, pooling), learning_rate, seed)


def _with_pooling(method: str, pooling: str) -> Options:
    """The options of a method. SimCSE with the first token trains through a head, which is dropped afterwards."""
    options = METHODS[method] | {"pooling": pooling}
    if method.startswith("simcse") and pooling == "cls":
        options["projection_head"] = True
    return options


def first_token_run(folder: str, method: str, seed: int) -> Run:
    """A method with first-token pooling."""
    options = _with_pooling(method, "cls")
    return _run(folder, f"attention/{method}/seed{seed}", options, FIRST_TOKEN_RATES[method], seed)


def ablation_run(folder: str, ablation: str, learning_rate: float, seed: int) -> Run:
    """DocSplit with one thing changed, at DocSplit's learning rate."""
    options = {"max_steps": ABLATION_STEPS} | ABLATIONS[ablation][1]
    return _run(folder, f"ablations/{ablation}/seed{seed}", options, learning_rate, seed)


def longer_run(folder: str, method: str, seed: int) -> Run:
    """A method for twenty times the steps, or for as many tokens with three parts: two thirds of these steps."""
    own = METHODS[method.removesuffix("_slower")]
    every = SAVED_EVERY * 2 // own.get("views_kwargs", {}).get("parts", 2)
    checkpoints = LONGER_STEPS // SAVED_EVERY
    steps = every * checkpoints
    options = own | {
        "pooling": "mean",
        "max_steps": steps,
        "save_steps": every,
        "save_total_limit": checkpoints,
        "eval_steps": steps,
        "logging_steps": every,
    }
    return _run(folder, f"longer/{method}/seed{seed}", options, LONGER_RATES[method], seed)


def question_run(folder: str, question: str, seed: int) -> Run:
    """DocSplit without MLM with one thing changed."""
    method = "docsplit_without_mlm"
    options = METHODS[method] | {"max_steps": QUESTION_STEPS} | QUESTIONS[question]
    return _run(folder, f"questions/{question}/seed{seed}", options, LONGER_RATES[method], seed)


def long_run(folder: str, kind: str, objective: str, seed: int) -> Run:
    """A Longformer or BigBird trained further by one of the objectives."""
    start = LONG["model_name_or_path"].format(folder=folder, kind=kind)
    options = LONG | LONG_OBJECTIVES[objective] | LONG_KINDS[kind] | {"model_name_or_path": start}
    return _run(folder, f"long/{kind}_{objective}/seed{seed}", options, LONG_RATE, seed)


def adaptation_run(folder: str, task: str, recipe: str) -> Run:
    """MiniLM trained further on the training texts of a task."""
    options = ADAPTATION | {"dataset_name": f"{folder}/texts/{task}.jsonl"} | ADAPTATION_RECIPES[recipe]
    return Run(f"adaptation/{task}/{recipe}", options)


def _run(folder: str, name: str, options: Options, learning_rate: float, seed: int) -> Run:
    steps = options.get("max_steps", STEPS)
    chosen = {
        "model_name_or_path": f"{folder}/{START}",
        **COMMON,
        "max_steps": steps,
        "save_steps": steps,
        "warmup_steps": steps // 10,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    chosen |= options
    return Run(name, chosen | {"dataset_name": chosen["dataset_name"].format(folder=folder)})


def relative_cost(options: Options) -> float:
    """The approximate time of a run relative to DocSplit without MLM, from its tokens and measured factors."""
    chosen = COMMON | {"max_steps": STEPS, "objective": "info_nce"} | options
    views = chosen.get("views_kwargs", {}).get("parts", 2) / 2
    tokens = views * chosen["max_length"] * chosen["per_device_train_batch_size"] * chosen["max_steps"]
    with_mlm = 2.5 if chosen.get("mlm_weight") != 0 else 1.0
    factor = {"mlm": 1.5, "contrastive_tension": 1.0}.get(chosen["objective"], with_mlm)
    return factor * tokens / (COMMON["max_length"] * COMMON["per_device_train_batch_size"] * STEPS)


def slowest_first(runs: dict[str, Options]) -> list[str]:
    """Names of runs, the slowest first, so that no worker waits long at the end."""
    return sorted(runs, key=lambda name: relative_cost(runs[name]), reverse=True)


def as_arguments(options: Options) -> list[str]:
    """Options as command-line arguments; a flag that is True has no value."""
    arguments = []
    for name, value in options.items():
        if value is True:
            arguments.append(f"--{name}")
        elif isinstance(value, tuple):
            arguments += [f"--{name}", *map(str, value)]
        elif isinstance(value, dict):
            if value:
                arguments += [f"--{name}", json.dumps(value)]
        else:
            arguments += [f"--{name}", str(value)]
    return arguments
