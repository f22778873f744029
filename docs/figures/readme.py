"""README.md, whose figures are also on other pages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import gpu
from .few_labels import beside_gpt, mean_of, mean_of_sets
from .pages import Figure, Figures
from .performance import Pair, int8_change, speeds
from .records import ROOT, Records, chosen, content, mean

TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")
CARD = ROOT / "model_cards" / "docsplit-small-en" / "results.json"


def readme() -> Figures:
    ledgar = beside_gpt()
    largest = content("ten_million/10000000.json")
    local = content("milvus/million.json")["local"]
    return {
        "ours": mean_of_sets("seventeen", "ours", "5"),
        "probe": mean_of_sets("seventeen", "probe", "5"),
        "words": mean_of_sets("seventeen", "tfidf", "5"),
        "ours, four sets": mean_of("ours", "5"),
        "SetFit, four sets": mean_of("setfit", "5"),
        "ours, clauses": ledgar["ledgar, ours"],
        "GPT-3.5, clauses": ledgar["ledgar, GPT-3.5"],
        "before pretraining": pretrained_further("MiniLM"),
        "after pretraining": pretrained_further("docsplit_best_recipe"),
        **included_encoder(),
        "recall, ten million": 100 * largest["recall"],
        "milliseconds, ten million": largest["p50_ms"],
        "recall, a million passages": 100 * local["IVF1024,PQ48, 32, 4"]["recall, 64"],
        "recall, a million passages, wider": 100 * local["IVF1024,PQ48, 128, 16"]["recall, 64"],
        **foreign_texts(),
        **speed(),
        "DeepSpeed": content("engines.json")["deepspeed, ZeRO-2"]["deepspeed"],
    }


def mean_of_tasks(rows: Records, **fields: Any) -> float:
    """Return few-shot macro F1 with five examples per class, over the four tasks."""
    rows = chosen(rows, protocol="few_shot", shots=5)
    return float(np.mean([mean(rows, "macro_f1", task=task, **fields) for task in TASKS]))


def pretrained_further(recipe: str) -> float:
    """Return few-shot macro F1 of all-MiniLM-L6-v2 after a recipe of training, or as it is."""
    return mean_of_tasks(content("study/earlier_results.json")["records"], system=f"adaptation/{recipe}")


def included_encoder() -> dict[str, Figure]:
    rows = json.loads(CARD.read_text(encoding="utf-8"))["records"]
    return {name: mean_of_tasks(rows, system=name) for name in ("docsplit-small-en", "all-MiniLM-L6-v2")}


def foreign_texts() -> dict[str, Figure]:
    """Return which share of the texts of unknown intents is answered, without the limit to novelty and with it."""
    rows = chosen(content("reliability/foreign/rejection.jsonl"), encoder="all-MiniLM-L6-v2", documents="none")
    return {
        "foreign texts answered": 100 * np.mean([row["answered"]["0.05 off"]["foreign"] for row in rows]),
        "foreign texts answered, novelty": 100 * np.mean([row["answered"]["0.05 0.05"]["foreign"] for row in rows]),
    }


def speed() -> dict[str, Figure]:
    """Return times as fast in inference, what int8 costs, and how long an index searches."""
    found = speeds()

    def times(ours: str, theirs: str) -> float:
        return found[Pair("inference", f"docsplit_hf, {ours}", f"sentence-transformers, {theirs}")].times

    million = [row for row in content("datastore_index.jsonl") if row["rows"] == 1_000_000]
    [index] = chosen(million, index="IVF1024,PQ48", nprobe=32, rerank=4)
    return {
        "documents a second on a GPU": gpu.rate("BERT base", "compile_layers", mlm=False),
        "times as fast, int8": times("int8", "fp32"),
        "times as fast as their int8": times("int8", "openvino int8"),
        "times as fast, float32": times("fp32", "fp32"),
        "change by int8": int8_change(),
        "recall, made-up vectors": 100 * index["recall"],
        "milliseconds, made-up vectors": index["p50"],
    }
