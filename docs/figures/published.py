"""Beside published results: docs/results/published.md."""

from __future__ import annotations

import numpy as np

from .pages import Figure, Figures
from .records import RESULTS, benchmark, chosen, content

MINILM = "all-MiniLM-L6-v2"
INCLUDED = "docsplit-small-en"


def published() -> Figures:
    intents = benchmark("quality.published.intents")
    setfit_table = benchmark("quality.published.setfit_table")
    sib200 = benchmark("quality.published.sib200")
    return {
        **cuad(),
        **intents_by_fit(),
        "intents": intents.rows(RESULTS / "few_labels" / "intents.jsonl"),
        **beside_setfit(),
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
    records = content("few_labels/setfit_table.jsonl")
    means = {}
    for name in ("ag_news", "SentEval-CR", "emotion"):
        for system, short in (("probe", "probe"), ("fit", "fit"), ("fit, documents", "documents")):
            scores = [record["score"] for record in chosen(records, set=name, system=system, per_label=8)]
            means[f"{name}, {short}"] = float(np.mean(scores))
        [published] = chosen(
            content("few_labels/setfit_published.jsonl"), set=name, system=f"SetFit, {MINILM}", per_label=8
        )
        means[f"{name}, SetFit"] = float(np.mean(published["scores"]))
    emotion = means.pop("emotion, fit") - means.pop("emotion, probe")
    named = ("ag_news, documents", "ag_news, SetFit", "ag_news, fit")
    named += ("SentEval-CR, fit", "SentEval-CR, documents", "SentEval-CR, SetFit")
    return {name: means[name] for name in named} | {"emotion, fit above the probe": emotion}
