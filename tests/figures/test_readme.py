"""README.md, and what other pages repeat of it."""

import json

import numpy as np

from ..commands import ROOT
from .page import Page
from .records import chosen, content, mean
from .test_few_labels import FOUR, few_labels, mean_of_sets
from .test_performance import int8_change, speeds
from .test_results import TASKS

CARD = json.loads((ROOT / "model_cards" / "docsplit-small-en" / "results.json").read_text(encoding="utf-8"))["records"]


def mean_of_tasks(rows, **fields):
    rows = chosen(rows, protocol="few_shot", shots=5)
    return np.mean([mean(rows, "macro_f1", task=task, **fields) for task in TASKS])


def before_and_after():
    """Half an hour of training a good encoder further."""
    rows = content("study/earlier_results.json")["records"]
    return [mean_of_tasks(rows, system=f"adaptation/{name}") for name in ("MiniLM", "docsplit_best_recipe")]


def test_figures():
    page = Page("README.md")
    five = [100 * mean_of_sets("unseen", name, "5") for name in ("ours", "probe", "tfidf")]
    page.says(
        "over 17 data sets that were not used for tuning, all-MiniLM-L6-v2: [{}](docs/results/few_labels.md); a "
        "linear probe {}, word counts {}. Over four",
        *five,
    )
    page.says("Over four other sets, on which constants were chosen: {}, [SetFit]", few_labels("ours", "5", FOUR))
    page.says("[SetFit](docs/results/few_labels.md#setfit) {} (fewer", few_labels("setfit", "5", FOUR))
    page.says("[{} before, {} after]", *before_and_after())
    of_card = (mean_of_tasks(CARD, system=name) for name in ("docsplit-small-en", "all-MiniLM-L6-v2", "tfidf"))
    page.says(
        "is {}; all-MiniLM-L6-v2, the larger encoder that it was distilled from, has {}, and word counts have {}",
        *of_card,
    )
    largest = content("ten_million/10000000.json")
    page.says("rows): {} ms, {} %", largest["p50_ms"], 100 * largest["recall"])
    page_of_speed(page)
    found = content("milvus/million.json")["local"]
    page.says("it finds [{} %](docs/remote_datastore.md", 100 * found["IVF1024,PQ48, 32, 4"]["recall, 64"])
    page.says("a-million-passages), and {} % with", 100 * found["IVF1024,PQ48, 128, 16"]["recall, 64"])
    page.without_record(
        "96 % of 300 other texts",  # the quick start on BBC News, shortened
        "'score': 0.91",
        "'weight': 0.16",
        "{'neighbors': 0.87, 'topics': 0.78, 'names': 0.75, 'words': 0.15, ...}",
        "'weight': 0.08",
        "'weight': 0.05",
        "'score': 0.35",
        "at most 5 % are wrong",  # what a user asks for
        "finds the other half of a document among 499 in [67 %]",  # make pretrain
        "before, in 63 %",
        "recall@1   before  62.5 %   after  67.1 %   +4.6 points",
        "recall@10  before  90.6 %   after  94.8 %   +4.2 points",
        "accuracy  87.6 %   macro F1  84.5 %   log loss 0.376",  # make classify
        "accuracy  92.8 %   macro F1  90.8 %   log loss 0.276",
        "accuracy  20.4 %   macro F1   4.8 %   log loss 1.813",
    )
    page.check(at_least=10)


def page_of_speed(page):
    """Times as fast in inference, what int8 costs, and how long an index searches."""
    found = speeds()
    ours, theirs = "docsplit_hf, {}", "sentence-transformers, {}"
    times = {
        name: found["inference", ours.format(name), theirs.format(other)][2]
        for name, other in (("int8", "fp32"), ("fp32", "fp32"))
    }
    own_int8 = found["inference", ours.format("int8"), theirs.format("openvino int8")][2]
    page.says("in int8 [{}](docs/performance.md#inference) times as fast", times["int8"])
    page.says("in float32, {} times as fast as its int8", own_int8)
    page.says("float32: {} times |", times["fp32"])
    page.says("macro F1 changes by [{}]", int8_change())
    million = [row for row in content("datastore_index.jsonl") if row["rows"] == 1_000_000]
    [index] = chosen(million, index="IVF1024,PQ48", nprobe=32, rerank=4)
    page.says("[{} ms](docs/datastore.md) for a query; {} % of the true", index["p50"], 100 * index["recall"])
