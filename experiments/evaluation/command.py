"""What ``python -m experiments`` does: load tasks and systems, measure what is missing, and write the report."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser

from docsplit_hf.storage.inside_folder import write_file

from .arguments import EvaluationArguments
from .experiment import EvaluationSettings, check_protocols
from .results import Record, ResultStore, describe_command, summarize_records
from .runner import short_names
from .systems import SYSTEMS_WITHOUT_ENCODER, EncoderSystem, System, load_system
from .tasks import EvaluationTask

CLASSIFICATION_PROTOCOLS = {"full", "few_shot", "curve"}
# Makes the content of results.md, and its first table, of records, their store, the command and what was left out.
Report = Callable[[list[Record], ResultStore, str, list[str]], tuple[str, str]]
WHEN_STOPPED = "Finished results are kept: run the same command again to continue."
WHY_WORD_COUNTS_WIN = (
    "Why word counts win here: they read whole documents, while encoders read the first {max_length} tokens. With many "
    "examples, most classes also have characteristic words, such as the names in a package. Encoders also use words "
    "that are not in the examples, which helps when examples are few: compare few_shot and curve."
)


def word_counts_win(records: Sequence[Mapping[str, Any]], names: set[str]) -> bool:
    """Return whether word counts are most accurate on all examples of any task; ``names``: names of these systems."""
    frame = summarize_records(record for record in records if record["protocol"] == "full")
    best = frame[frame["metric"] == "accuracy"].sort_values("mean").groupby("task")["system"].last()
    return bool(best.isin(names).any())


def load_tasks(load: Callable[..., EvaluationTask], names: Sequence[Any], **options: Any) -> list[EvaluationTask]:
    """Load the tasks; their names must differ."""
    tasks: list[EvaluationTask] = []
    for name in names:
        task = load(name, **options)
        if task.name in (other.name for other in tasks):
            raise ValueError(f"Two tasks are named {task.name!r}, but tables need distinct names: rename a file.")
        tasks.append(task)
    return tasks


def load_systems(
    arguments: EvaluationArguments, max_length: int, word_counts: Mapping[str, Any] = SYSTEMS_WITHOUT_ENCODER
) -> dict[str, System]:
    """Load the systems, by their names on the command line; tables show short names."""
    cache = arguments.cache_dir or Path(arguments.output_dir) / "embeddings"
    systems: dict[str, System] = {}
    names = arguments.models
    if not any(name.startswith("tfidf") for name in names) and CLASSIFICATION_PROTOCOLS & set(arguments.protocol):
        names = [*names, "tfidf#name=word counts"]
    for name, short in zip(names, short_names(names), strict=True):
        strategies = arguments.long_documents
        system = load_system(name, cache, max_length, arguments.bf16, strategies[0], word_counts)
        system.name = short
        variants = [system]
        if len(strategies) > 1 and isinstance(system, EncoderSystem):
            variants = system.with_strategies(strategies)
        for variant in variants:
            systems[f"{name}#name={variant.name}"] = variant
    return systems


def check(parser: HfArgumentParser, arguments: EvaluationArguments, protocols: Mapping[str, Any]) -> None:
    """Check the arguments before anything is loaded."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    check_protocols(arguments.protocol, protocols)


def evaluate(
    arguments: EvaluationArguments,
    settings: EvaluationSettings,
    tasks: Sequence[EvaluationTask],
    systems: Mapping[str, System],
    command: Sequence[str],
    measure: Callable[..., tuple[list[Record], list[str]]],
    report: Report,
) -> dict[str, Any]:
    """Compute missing results, write the report, and print a summary; return the figures for ``--json``."""
    folder = Path(arguments.output_dir)
    run = describe_command(command)
    store = ResultStore(folder, run)
    records_before = len(store.records)
    start = time.monotonic()
    records, left_out = measure(systems, tasks, arguments.protocol, settings, store)
    if not records:
        raise ValueError("Nothing was measured: " + " ".join(left_out))
    text, first_table = report(records, store, run["command"], left_out)
    write_file(folder / "results.md", text)
    print(f"\n{first_table}\n")
    word_counts = {system.name for system in systems.values() if not isinstance(system, EncoderSystem)}
    if 0 < len(word_counts) < len(systems) and word_counts_win(records, word_counts):
        print(f"{WHY_WORD_COUNTS_WIN.format(max_length=settings.max_length)}\n")
    for line in left_out:
        print(f"Left out: {line}")
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    new = len(store.records) - records_before
    print(f"{len(records):,} records, {new:,} of them measured now in {minutes} min {seconds} s.")
    print(f"All tables: {folder / 'results.md'}")
    print(f"Every number, with its seed and settings: {store.path}")
    summary = json.loads(summarize_records(records).to_json(orient="records"))
    return {"output_dir": arguments.output_dir, "summary": summary, "left_out": left_out}
