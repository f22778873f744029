"""Measure systems on tasks by protocols; earlier measurements are taken from the results."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..models.inference.endpoint import split_name
from .experiment import Evaluation, EvaluationSettings, Experiment, Measurement, check_protocols, plan
from .protocols import FITTED, HALF_DOCUMENTS, LARGEST_CLASS, beside_probes, probe_protocols
from .results import ResultStore
from .systems import System
from .tasks import EvaluationTask, word_counts

logger = logging.getLogger(__name__)

PROTOCOLS: Mapping[str, Experiment] = {
    name: experiment._replace(beside=partial(beside_probes, name)) for name, experiment in probe_protocols().items()
} | {"half_documents": HALF_DOCUMENTS}


def run_protocols(
    systems: Mapping[str, System],
    tasks: Sequence[EvaluationTask],
    names: Sequence[str],
    settings: EvaluationSettings,
    store: ResultStore,
    protocols: Mapping[str, Experiment] = PROTOCOLS,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of every system on every task by every protocol that fits, and a line for each that was left out.

    The keys of ``systems`` are their names on the command line, from which fine-tuning starts.
    """
    check_protocols(names, protocols)
    chosen = {name: protocols[name] for name in names}
    planned, left_out = [], []
    for task in tasks:
        store.describe_task(task.fingerprint, describe_task(task))
        for named, system in systems.items():
            measurements, lines = plan(chosen, system, task, settings)
            planned.append((Evaluation(system, task, split_name(named)[0]), measurements))
            left_out += lines
    left_out = list(dict.fromkeys(left_out))
    for line in left_out:
        logger.warning(line)
    records = []
    total = sum(len(measurements) for _, measurements in planned)
    # No estimate: the first measurement of an encoder embeds, which takes the time and has a bar of its own.
    with tqdm(total=total, desc="Measuring", bar_format="{desc}: {n}/{total} after {elapsed}{postfix}") as progress:
        while planned:
            evaluation, measurements = planned.pop(0)  # its features are freed when the next one comes
            progress.set_postfix_str(f"{evaluation.system.name} on {evaluation.task.name}")
            for measurement in measurements:
                records.append(_measured_once(evaluation, measurement, store))
                progress.update()
    return records, left_out


def describe_task(task: EvaluationTask) -> dict[str, Any]:
    """The kind of a task, the numbers of its examples, and the words of its documents."""
    words = [int(word_counts(parts, task.language).sum()) for parts in task.documents]
    middle = {"mean": round(float(np.mean(words)), 1), "median": float(np.median(words)), "max": max(words)}
    return {"kind": task.kind, **task.sizes, "documents": len(words), "words": middle}


def short_names(names: Sequence[str]) -> list[str]:
    """Names for tables: the last part of a path, and as much before it as tells two of them apart.

    >>> short_names(["tfidf", "runs/a/best", "runs/b/best", "out/docsplit/", "out/long#name=ours"])
    ['tfidf', 'a/best', 'b/best', 'docsplit', 'ours']
    """
    paths, options_shown = [], []
    for name in names:
        base, options = split_name(name)
        chosen = options.pop("name", None)
        if chosen is None and "model" in options and "://" in base:
            paths.append((options.pop("model"),))  # which says more than the address of an endpoint
        else:
            paths.append((chosen,) if chosen else Path(base).parts or (base,))
        options_shown.append("" if chosen else "".join(f"#{option}={value}" for option, value in options.items()))
    count = [1] * len(names)
    while True:
        short = ["/".join(path[-n:]) + shown for path, n, shown in zip(paths, count, options_shown, strict=True)]
        alike = [number for number, name in enumerate(short) if short.count(name) > 1]
        if not alike:
            return short
        if all(count[number] >= len(paths[number]) for number in alike):
            raise ValueError(f"Two models are called {short[alike[0]]!r}: tell them apart by '...#name=ANOTHER'.")
        for number in alike:
            count[number] += 1


def _measured_once(evaluation: Evaluation, measurement: Measurement, store: ResultStore) -> dict[str, Any]:
    system, task, probe = evaluation.system, evaluation.task, measurement.settings.get("probe")
    name = {FITTED: f"{system.name}, {FITTED}", LARGEST_CLASS: LARGEST_CLASS}.get(probe, system.name)
    wanted = {
        "system": name,
        "system_fingerprint": system.fingerprint,
        "task": task.name,
        "task_fingerprint": task.fingerprint,
        "protocol": measurement.protocol,
        "settings": measurement.settings,
        "seed": measurement.seed,
    }
    if store.find(wanted) is None:
        start = time.perf_counter()
        try:
            metrics = measurement.run(evaluation)
        except ValueError as error:
            raise ValueError(f"{name} on {task.name}, {measurement.protocol}: {error}") from error
        store.add(wanted | {"metrics": metrics, "seconds": round(time.perf_counter() - start, 3)})
    # It may have been measured under other names, which are no part of its identity.
    return store.find(wanted) | {"system": name, "task": task.name}
