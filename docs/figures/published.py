"""Beside published results: docs/results/published.md."""

from __future__ import annotations

import numpy as np

from .pages import Figure, Figures
from .records import RESULTS, benchmark, chosen, content, half_interval

MINILM = "all-MiniLM-L6-v2"
INCLUDED = "docsplit-small-en"
# Of SetFit's table, by the names of the figures
SYSTEMS = {"probe": "probe", "fit": "fit", "documents": "fit, documents", "SetFit": f"SetFit, {MINILM}"}
FIVE_SETS = ("ag_news", "SentEval-CR", "emotion", "sst5", "amazon_counterfactual_en")


def published() -> Figures:
    intents = benchmark("quality.published.intents")
    setfit_table = benchmark("quality.published.setfit_table")
    sib200 = benchmark("quality.published.sib200")
    return {
        **cuad(),
        **intents_by_fit(),
        "intents": intents.rows(RESULTS / "few_labels" / "intents.jsonl"),
        **beside_setfit(),
        **five_sets(),
        "setfit": setfit_table.rows(RESULTS / "few_labels" / "setfit_table.jsonl"),
        "sib200": sib200.rows(RESULTS / "few_labels" / "sib200.jsonl"),
    }


def cuad() -> dict[str, Figure]:
    """Return the tables of contract clauses, and the means that sentences name."""
    benchmark_of_clauses = benchmark("quality.published.cuad")
    accuracies = benchmark_of_clauses.in_percent(content("contracts/cuad.jsonl"))
    means = accuracies[MINILM].mean()
    included = accuracies[INCLUDED].mean()
    published = [record for record in content("contracts/cuad_published.jsonl") if record["source"] == "MTEB"]
    probes = {record["system"]: 100 * np.mean(list(record["accuracy"].values())) for record in published}
    return {
        "own texts": means["names, own texts"],
        "names": means["names"],
        "own texts, included": included["names, own texts"],
        "names, included": included["names"],
        "names above the probe": means["names"] - means["probe"],
        "cost of other clauses": means["names"] - means["names, other clauses"],
        "best published probe": max(probes.values()),
        "published probe of MiniLM": probes[MINILM],
        "cuad": benchmark_of_clauses.mean_rows(accuracies),
        "cuad, worst": benchmark_of_clauses.worst_rows(accuracies),
        "cuad, published": benchmark_of_clauses.published_rows(accuracies),
    }


def intents_by_fit() -> dict[str, Figure]:
    """Return the accuracies of intents that sentences name."""
    figures = {}
    for record in content("few_labels/intents.jsonl"):
        if record["set"] == "BANKING77" and record["per_label"] == 5 and record["system"] != "probe":
            has_documents = "unlabeled" in record["system"]
            figures[f"seconds {'with' if has_documents else 'without'} documents"] = record["cpu_seconds"]
        is_named = record["per_label"] == 5 or record["set"] != "HWU64"
        if record["system"] != "probe" and is_named:
            name = f"{record['set']}, {record['per_label']}, {record['system']}"
            figures[name] = 100 * record["accuracy"]
    return figures


def beside_setfit() -> dict[str, Figure]:
    """Return the means of SetFit's table that sentences name."""
    means = {}
    for name in ("ag_news", "SentEval-CR", "emotion"):
        for short, system in SYSTEMS.items():
            means[f"{name}, {short}"] = float(np.mean(scores_of_draws(name, system)))
    emotion = means.pop("emotion, fit") - means.pop("emotion, probe")
    named = ("ag_news, documents", "ag_news, SetFit", "ag_news, fit")
    named += ("SentEval-CR, fit", "SentEval-CR, documents", "SentEval-CR, SetFit")
    return {name: means[name] for name in named} | {"emotion, fit above the probe": emotion}


def five_sets() -> dict[str, Figure]:
    """Return means over SetFit's sets with eight labels and their intervals, and on how many sets we win and lose."""
    scores = {}
    for short, system in SYSTEMS.items():
        scores[short] = np.array([scores_of_draws(name, system) for name in FIVE_SETS])
    figures: dict[str, Figure] = {}
    for short, of_sets in scores.items():
        by_draw = of_sets.mean(axis=0)
        figures[f"five sets, {short}"] = (float(by_draw.mean()), half_interval(by_draw))
    for short in ("documents", "fit"):
        gains = scores[short].mean(axis=1) - scores["SetFit"].mean(axis=1)
        figures[f"five sets, {short}, won"] = int(np.sum(gains > 0))
        figures[f"five sets, {short}, lost"] = int(np.sum(gains < 0))
    return figures


def scores_of_draws(name: str, system: str) -> list[float]:
    """Return the scores of a set with eight labels, by draw; SetFit's are published."""
    if system.startswith("SetFit"):
        [published] = chosen(content("few_labels/setfit_published.jsonl"), set=name, system=system, per_label=8)
        return published["scores"]
    records = chosen(content("few_labels/setfit_table.jsonl"), set=name, system=system, per_label=8, encoder=MINILM)
    return [record["score"] for record in sorted(records, key=lambda record: record["seed"])]
