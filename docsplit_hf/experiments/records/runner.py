"""Going through systems, tasks and protocols; what was measured before is taken from the results."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from ..protocols.parts_of_speech import load_spacy
from ..protocols.registry import KINDS, Measurement, check_protocols, measure, plan
from ..protocols.settings import EvaluationSettings
from ..protocols.subject import SpacyPipeline, Subject
from ..systems.encoders import split_name
from ..tasks.loading import ClassificationTask, EvaluationTask, PairTask
from .results import ResultStore

if TYPE_CHECKING:
    from ..systems.loading import System

logger = logging.getLogger(__name__)

USING_SPACY = ("redundancy", "attention")


def run_protocols(
    systems: Mapping[str, System],
    tasks: Sequence[EvaluationTask],
    protocols: Sequence[str],
    settings: EvaluationSettings,
    store: ResultStore,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure every system on every task by every protocol that fits.

    Everything is planned before anything is measured, so what cannot work is refused at once. Each record is kept as
    soon as it is there: a run that was killed goes on where it was. Features are made once for each system and task,
    and only if a record is missing.

    Args:
        systems: By what names them, see ``load_system``; fine-tuning starts from what is named. Their ``name`` is what
            the records say.
        tasks: The tasks.
        protocols: Names of protocols.
        settings: How.
        store: Where records are kept.

    Returns:
        The records asked for, in order, under the systems' present names, and a line for each measurement that was left
        out, which are logged too.

    Raises:
        ValueError: If a protocol is unknown, or a measurement fails; the message says of what system and task.

    Example:

        >>> import tempfile
        >>> import numpy as np
        >>> from docsplit_hf.experiments.systems.loading import load_system
        >>> from docsplit_hf.experiments.tasks.loading import ClassificationTask
        >>> texts, labels = ["all good", "all bad"] * 4, np.array([0, 1] * 4)
        >>> task = ClassificationTask("mine", texts, labels, texts, labels, ["pro", "contra"])
        >>> store = ResultStore(tempfile.mkdtemp())
        >>> settings = EvaluationSettings(seeds=1)
        >>> records, _ = run_protocols({"tfidf": load_system("tfidf")}, [task], ["knn"], settings, store)
        >>> records[0]["system"], records[0]["metrics"]["accuracy"]
        ('tfidf', 1.0)
    """
    check_protocols(protocols)
    protocols, left_out = _without_missing_spacy(protocols, settings)
    everything: dict[str, System | SpacyPipeline] = dict(systems)
    if "redundancy" in protocols and not left_out:
        everything["spaCy"] = SpacyPipeline(load_spacy(settings.spacy_pipeline))
    planned = []
    for task in tasks:
        store.describe_task(task.fingerprint, describe_task(task))
        for named, system in everything.items():
            measurements, lines = plan(protocols, system, task, settings)
            planned.append((Subject(system, task, _checkpoint(named)), measurements))
            left_out += lines
    left_out = list(dict.fromkeys(left_out))
    for line in left_out:
        logger.warning(line)
    records = []
    total = sum(len(measurements) for _, measurements in planned)
    # No estimate: the first measurement of an encoder embeds, which takes the time and has a bar of its own.
    with tqdm(total=total, desc="Measuring", bar_format="{desc}: {n}/{total} after {elapsed}{postfix}") as progress:
        while planned:
            subject, measurements = planned.pop(0)  # its features are freed when the next one comes
            progress.set_postfix_str(f"{subject.system.name} on {subject.task.name}")
            for measurement in measurements:
                records.append(_measured_once(subject, measurement, store))
                progress.update()
    return records, left_out


def describe_task(task: EvaluationTask) -> dict[str, Any]:
    """What a task consists of.

    Args:
        task: The task.

    Returns:
        ``kind``, the numbers of ``train`` and ``test`` examples and of ``classes`` where there are any, and
        ``mean_words`` of the texts that are tested on.

    Example:

        >>> from docsplit_hf.experiments.tasks.loading import CorpusTask
        >>> describe_task(CorpusTask("mine", ["A short text.", "Another."]))
        {'kind': 'texts alone', 'test': 2, 'mean_words': 2.0}
    """
    sizes: dict[str, Any] = {"kind": KINDS[type(task)]}
    texts = task.corpus().texts
    if isinstance(task, ClassificationTask):
        sizes |= {"train": len(task.train_texts), "test": len(texts), "classes": len(task.label_names)}
    elif isinstance(task, PairTask):
        sizes |= {"train": len(task.train), "test": len(task.test), "documents": len(texts)}
    else:
        sizes["test"] = len(texts)
    return sizes | {"mean_words": round(sum(len(text.split()) for text in texts) / len(texts), 1)}


def short_names(names: Sequence[str]) -> list[str]:
    """Names for tables: of a path the last part, and as much before it as tells two of them apart.

    Args:
        names: As for ``load_system``. The option ``#name=...`` is taken as it is; other options stay.

    Returns:
        As many names, no two alike.

    Raises:
        ValueError: If two are the same.

    Example:

        >>> short_names(["tfidf", "runs/a/best", "runs/b/best", "out/docsplit/", "out/long#name=ours"])
        ['tfidf', 'a/best', 'b/best', 'docsplit', 'ours']
    """
    parts, endings = [], []
    for name in names:
        base, options = split_name(name)
        chosen = options.pop("name", None)
        given = "model" in options and "://" in base  # of an endpoint the model says more than the address
        parts.append((chosen or options.pop("model"),) if chosen or given else Path(base).parts or (base,))
        endings.append("" if chosen else "".join(f"#{option}={value}" for option, value in options.items()))
    count = [1] * len(names)
    while True:
        short = ["/".join(part[-n:]) + end for part, n, end in zip(parts, count, endings, strict=True)]
        alike = [number for number, name in enumerate(short) if short.count(name) > 1]
        if not alike:
            return short
        if all(count[number] >= len(parts[number]) for number in alike):
            raise ValueError(f"Two models are called {short[alike[0]]!r}: tell them apart by '...#name=ANOTHER'.")
        for number in alike:
            count[number] += 1


def _measured_once(subject: Subject, measurement: Measurement, store: ResultStore) -> dict[str, Any]:
    system, task = subject.system, subject.task
    wanted = {
        "system": system.name,
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
            metrics = measure(subject, measurement)
        except ValueError as error:
            raise ValueError(f"{system.name} on {task.name}, {measurement.protocol}: {error}") from error
        store.add(wanted | {"metrics": metrics, "seconds": round(time.perf_counter() - start, 3)})
    # Names are no part of what a measurement is: it may have been made under others.
    return store.find(wanted) | {"system": system.name, "task": task.name}


def _without_missing_spacy(protocols: Sequence[str], settings: EvaluationSettings) -> tuple[list[str], list[str]]:
    """Attention needs spaCy, and one half of redundancy does: without it the rest goes on."""
    if not set(protocols) & set(USING_SPACY):
        return list(protocols), []
    try:
        load_spacy(settings.spacy_pipeline)
    except (ModuleNotFoundError, OSError) as error:
        kept = [name for name in protocols if name != "attention"]
        return kept, [f"Parts of speech (attention, and R of redundancy) are left out: {error}"]
    return list(protocols), []


def _checkpoint(name: str) -> str:
    return split_name(name)[0]
