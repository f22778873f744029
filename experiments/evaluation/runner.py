"""Run protocols: measure systems on tasks, and reuse earlier measurements."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from docsplit_hf.encoding.backends.endpoint_classifier import split_name

from .experiment import Evaluation, EvaluationSettings, Experiment, PlannedMeasurement, check_protocols, plan
from .protocols import ENSEMBLE, HALF_DOCUMENTS, LARGEST_CLASS, beside_probes, probe_protocols
from .results import Record, ResultStore, TaskDescription
from .systems import System
from .tasks import EvaluationTask, word_counts

logger = logging.getLogger(__name__)


def _default_protocols() -> dict[str, Experiment]:
    """The protocols of ``docsplit evaluate``."""
    protocols = {}
    for name, experiment in probe_protocols().items():
        protocols[name] = experiment._replace(beside=partial(beside_probes, name))
    protocols["half_documents"] = HALF_DOCUMENTS
    return protocols


PROTOCOLS: Mapping[str, Experiment] = _default_protocols()


def run_protocols(
    systems: Mapping[str, System],
    tasks: Sequence[EvaluationTask],
    names: Sequence[str],
    settings: EvaluationSettings,
    store: ResultStore,
    protocols: Mapping[str, Experiment] = PROTOCOLS,
) -> tuple[list[Record], list[str]]:
    """Measure every system on every task by every suitable protocol.

    The keys of ``systems`` are their names on the command line; fine-tuning starts from these checkpoints.

    Returns:
        The records, and a line for each combination that was left out.
    """
    check_protocols(names, protocols)
    chosen = {name: protocols[name] for name in names}
    planned = []
    left_out = []
    for task in tasks:
        store.describe_task(task.fingerprint, describe_task(task))
        for system_name, system in systems.items():
            measurements, lines = plan(chosen, system, task, settings)
            checkpoint, _ = split_name(system_name)
            planned.append((Evaluation(system, task, checkpoint), measurements))
            left_out += lines
    left_out = list(dict.fromkeys(left_out))
    for line in left_out:
        logger.warning(line)
    records = []
    total = sum(len(measurements) for _, measurements in planned)
    # Without an estimate of the time: the first measurement of an encoder takes longest, as it embeds the texts.
    with tqdm(total=total, desc="Measuring", bar_format="{desc}: {n}/{total} after {elapsed}{postfix}") as progress:
        while planned:
            evaluation, measurements = planned.pop(0)  # pop frees the features of the previous evaluation
            progress.set_postfix_str(f"{evaluation.system.name} on {evaluation.task.name}")
            for measurement in measurements:
                records.append(_measured_once(evaluation, measurement, store))
                progress.update()
    return records, left_out


def describe_task(task: EvaluationTask) -> TaskDescription:
    """Describe a task: its kind, the numbers of its examples, and the words of its documents."""
    words = [int(word_counts(texts, task.language).sum()) for texts in task.documents]
    statistics = {"mean": round(float(np.mean(words)), 1), "median": float(np.median(words)), "max": max(words)}
    return {"kind": task.kind, **task.sizes, "documents": len(words), "words": statistics}


def short_names(names: Sequence[str]) -> list[str]:
    """Shorten names for tables to the last part of their path, unless two models would have the same name.

    >>> short_names(["tfidf", "runs/a/best", "runs/b/best", "out/docsplit/", "out/long#name=ours"])
    ['tfidf', 'runs/a/best', 'runs/b/best', 'docsplit', 'ours']
    """
    short = [_shown(name, is_whole=False) for name in names]
    shown = [_shown(name, is_whole=short.count(brief) > 1) for name, brief in zip(names, short, strict=True)]
    for name in shown:
        if shown.count(name) > 1:
            raise ValueError(f"Two models are called {name!r}: rename one by '...#name=ANOTHER'.")
    return shown


def _shown(name: str, is_whole: bool) -> str:
    """What tables show of a name on the command line."""
    base, options = split_name(name)
    chosen = options.pop("name", None)
    if chosen:
        return chosen
    shown = base if is_whole else Path(base).name or base
    if "://" in base:
        shown = options.pop("model", shown)  # more informative than the address of an endpoint
    return shown + "".join(f"#{option}={value}" for option, value in options.items())


def _name_in_records(system: System, measurement: PlannedMeasurement) -> str:
    """The name of a system in records and tables, which depends on the probe."""
    probe = measurement.settings.get("probe")
    if probe == ENSEMBLE:
        return f"{system.name}, {ENSEMBLE}"
    return LARGEST_CLASS if probe == LARGEST_CLASS else system.name


def _measured_once(evaluation: Evaluation, measurement: PlannedMeasurement, store: ResultStore) -> Record:
    """Return the stored record of a measurement, or measure and store it."""
    system = evaluation.system
    task = evaluation.task
    name = _name_in_records(system, measurement)
    wanted: Record = {
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
    # The stored record may have other names, which are not part of its key.
    return store.find(wanted) | {"system": name, "task": task.name}
