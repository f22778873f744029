"""README.md, and what other pages repeat of it."""

import json

import numpy as np

from ..commands import ROOT
from .page import Page
from .records import chosen, content, mean
from .test_few_labels import FOUR, few_labels, mean_of_sets
from .test_performance import int8_change, speeds
from .test_results import TASKS

LIMITS = ("off", "0.05")  # to novelty
CARD = json.loads((ROOT / "model_cards" / "docsplit-small-en" / "results.json").read_text(encoding="utf-8"))["records"]


def mean_of_tasks(rows, **fields):
    rows = chosen(rows, protocol="few_shot", shots=5)
    return np.mean([mean(rows, "macro_f1", task=task, **fields) for task in TASKS])


def before_and_after():
    """Half an hour of training a good encoder further."""
    rows = content("study/earlier_results.json")["records"]
    return [mean_of_tasks(rows, system=f"adaptation/{name}") for name in ("MiniLM", "docsplit_best_recipe")]


def beside_gpt():
    """Macro F1 with four labels of each class of LEDGAR, and of GPT-3.5's published answers."""
    rows = content("few_labels/ledgar.jsonl")
    ours = [row["macro_f1"] for row in chosen(rows, system="ours", per_label="4")]
    [gpt] = chosen(rows, system="gpt-3.5 zero-shot")
    return 100 * np.mean(ours), 100 * gpt["macro_f1"]


def test_figures():
    page = Page("README.md")
    five = [100 * mean_of_sets("unseen", name, "5") for name in ("ours", "probe", "tfidf")]
    page.says("not used for tuning: [{}](docs/results/few_labels.md), the probe {} |", *five[:2])
    page.says("The same data sets: {}. With thousands", five[2])
    theirs = few_labels("ours", "5", FOUR), few_labels("setfit", "5", FOUR)
    page.says("Four data sets: [{}](docs/results/few_labels.md), SetFit {}. SetFit ran", *theirs)
    ours, gpt = beside_gpt()
    page.says("four labels of each: [{}](docs/results/few_labels.md). GPT", ours)
    page.says("GPT-3.5 has {}; it saw", gpt)
    page.says("[{} before and {} after]", *before_and_after())
    of_card = (mean_of_tasks(CARD, system=name) for name in ("docsplit-small-en", "all-MiniLM-L6-v2"))
    page.says("[{} where all-MiniLM-L6-v2 has {}]", *of_card)
    largest = content("ten_million/10000000.json")
    page.says("rows), {} % in {} ms |", 100 * largest["recall"], largest["p50_ms"])
    page_of_speed(page)
    found = content("milvus/million.json")["local"]
    real = 100 * found["IVF1024,PQ48, 32, 4"]["recall, 64"]
    page.says("it finds [{} %](docs/remote_datastore.md#a-million-passages) of the true", real)
    page.says("neighbors, and {} % with `nprobe", 100 * found["IVF1024,PQ48, 128, 16"]["recall, 64"])
    foreign = chosen(content("reliability/foreign/rejection.jsonl"), encoder="all-MiniLM-L6-v2", documents="none")
    answered = [100 * np.mean([row["answered"][f"0.05 {limit}"]["foreign"] for row in foreign]) for limit in LIMITS]
    page.says("[{} %](docs/results/reliability.md#foreign-texts) of the texts", answered[0])
    page.says("without `novelty`, and {} % with it", answered[1])
    page.without_record(
        "96 % of 300 other texts",  # of BBC News, once
        "at most 5 % wrong answers",  # what a user asks for
        "GPT-3.5",
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
    page.says("or more, [{}](docs/performance.md#inference) times as fast", times["int8"])
    page.says("and {} times as fast as its int8", own_int8)
    page.says("Without int8: {} times |", times["fp32"])
    page.says("with few labels changes by [{}]", int8_change())
    million = [row for row in content("datastore_index.jsonl") if row["rows"] == 1_000_000]
    [index] = chosen(million, index="IVF1024,PQ48", nprobe=32, rerank=4)
    page.says("made-up vectors {} %, in [{} ms](docs/datastore.md)", 100 * index["recall"], index["p50"])
