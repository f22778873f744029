"""README.md, whose figures are also on other pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import gpu
from .few_labels import mean_of_sets
from .pages import Figure, Figures
from .performance import Pair, speeds
from .published import cuad, five_sets
from .records import Records, chosen, content, mean

TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")


def readme() -> Figures:
    clauses = cuad()
    return {
        "ours": mean_of_sets("seventeen", "ours", "5"),
        "probe": mean_of_sets("seventeen", "probe", "5"),
        "words": mean_of_sets("seventeen", "tfidf", "5"),
        **setfit_table(),
        "before pretraining": pretrained_further("MiniLM"),
        "after pretraining": pretrained_further("docsplit_best_recipe"),
        "contracts": clauses["own texts"],
        "best published probe": clauses["best published probe"],
        **speed(),
        "DeepSpeed": content("engines.json")["deepspeed, ZeRO-2"]["deepspeed"],
    }


def setfit_table() -> dict[str, Figure]:
    """Return means over five sets, without intervals, and on how many of them we win and lose with documents."""
    figures = five_sets()
    shown = {name: figures[name][0] for name in ("five sets, documents", "five sets, SetFit")}
    return shown | {name: figures[name] for name in ("five sets, documents, won", "five sets, documents, lost")}


def mean_of_tasks(rows: Records, **fields: Any) -> float:
    """Return few-shot macro F1 with five examples per class, over the four tasks."""
    rows = chosen(rows, protocol="few_shot", shots=5)
    return float(np.mean([mean(rows, "macro_f1", task=task, **fields) for task in TASKS]))


def pretrained_further(recipe: str) -> float:
    """Return few-shot macro F1 of all-MiniLM-L6-v2 after a recipe of training, or as it is."""
    return mean_of_tasks(content("study/earlier_results.json")["records"], system=f"adaptation/{recipe}")


def speed() -> dict[str, Figure]:
    """Return the speed of training on a GPU, and of inference in int8 beside sentence-transformers."""
    pair = Pair("inference", "docsplit_hf, int8", "sentence-transformers, fp32")
    return {
        "documents a second on a GPU": gpu.rate("BERT base", "compile_layers", mlm=False),
        "times as fast, int8": speeds()[pair].times,
    }
