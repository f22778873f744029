"""The card of a released checkpoint: what was measured of it, how it was trained, what it is good for."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from card_results import DERIVED, ROOT, STATED, CardResults, read_command, stated_record, writing_run
from checkpoints import Checkpoint, Stage
from evaluation_index import TASKS, evaluation_results
from huggingface_hub import ModelCardData

from docsplit_hf.experiments.records.results import ResultStore
from docsplit_hf.experiments.report.summary import Cell, summarize_records
from docsplit_hf.experiments.report.tables import escape, table_by_system
from docsplit_hf.training.markdown import table

METRICS = {
    "few_shot": ("accuracy", "macro_f1"),
    "full": ("accuracy", "macro_f1"),
    "citation": ("accuracy", "cosine_accuracy"),
}
AVERAGED = ("few_shot", "full")  # over their tasks
MEAN = "Mean"
TASK_DESCRIPTIONS = {
    "20News": "posts to newsgroups, without headers, signatures and quotations; by group",
    "BBCNews": "news articles, by topic",
    "arXiv": "abstracts of papers, by archive",
    "FakeNews": "news articles, by kind of site; from small sets, not the papers' set",
    "AAN": "whether one paper of the ACL Anthology cites the other; not the pairs of the Long Range Arena",
}


def checkpoint_results(checkpoint: Checkpoint, root: Path = ROOT) -> CardResults:
    """The numbers of a checkpoint's card: its measurements, its shape and its training.

    Args:
        checkpoint: The checkpoint.
        root: The root of the project.

    Returns:
        What stands in its ``results.json``.

    Raises:
        ValueError: If something is not filled in, or the results lack a system, a task or a repeat.
    """
    _check(checkpoint, root)
    study = ResultStore((root / checkpoint.results).parent)
    chosen = [record for record in study.records if _is_shown(record, checkpoint)]
    _check_records(chosen, checkpoint)
    numbers = sorted({record["run"] for record in chosen})
    runs = [
        *(study.runs[number] for number in numbers),
        *(
            {"command": s.command, "date": s.date, "ran_on": s.ran_on, "versions": s.versions or {}}
            for s in checkpoint.stages
        ),
        writing_run("nothing was run: read from the files, or computed from the other records"),
    ]
    records = [{**record, "run": numbers.index(record["run"])} for record in chosen]
    used = {record["task_fingerprint"] for record in chosen}
    tasks = {fingerprint: task for fingerprint, task in study.tasks.items() if fingerprint in used}
    written = len(runs) - 1
    averages = [average for protocol in AVERAGED for average in _averages(records, protocol, written)]
    records += averages
    records += _differences(averages, checkpoint, written)
    for number, stage in enumerate(checkpoint.stages):
        metrics = _stage_metrics(stage)
        record = stated_record(
            checkpoint.name, "training", "training", metrics, STATED, {"stage": stage.title}, metrics["seed"]
        )
        records.append({**record, "seconds": stage.hours * 3600, "run": len(numbers) + number})
    hours = {"hours": sum(stage.hours for stage in checkpoint.stages)}
    corpus = {"documents": checkpoint.documents, "held_out": checkpoint.held_out, "words": checkpoint.words}
    shape = shape_of(root / checkpoint.folder)
    for protocol, metrics in (("training_hours", hours), ("corpus", corpus), ("shape", shape)):
        records.append(stated_record(checkpoint.name, "training", protocol, metrics, STATED, run=written))
    return CardResults(runs, tasks, records)


def _check(checkpoint: Checkpoint, root: Path) -> None:
    lacking = [
        f"{field} of the stage {stage.title!r}"
        for stage in checkpoint.stages
        for field in ("command", "hours", "date", "ran_on")
        if not getattr(stage, field)
    ]
    lacking += [
        f"{option} in the command of {stage.title!r}"
        for stage in checkpoint.stages
        for option, value in _stage_metrics(stage).items()
        if value is None and option != "hours"
    ]
    if lacking:
        raise ValueError(f"{checkpoint.name} in model_cards/checkpoints.py lacks: {'; '.join(lacking)}.")
    if not (root / checkpoint.folder / "model.safetensors").exists():
        raise ValueError(f"{checkpoint.name}: there is no {checkpoint.folder}/model.safetensors to be described.")


def _is_shown(record: Mapping[str, Any], checkpoint: Checkpoint) -> bool:
    if record["system"] not in checkpoint.systems or record["protocol"] not in METRICS:
        return False
    return record["protocol"] != "few_shot" or record["settings"]["shots"] == checkpoint.shots


def _check_records(records: Sequence[Mapping[str, Any]], checkpoint: Checkpoint) -> None:
    """One measurement for each system, task and protocol, and the same repeats for all systems."""
    if missing := set(checkpoint.systems) - {record["system"] for record in records}:
        raise ValueError(
            f"{checkpoint.results} has nothing of {sorted(missing)}: name the systems in model_cards/checkpoints.py as "
            "they are named there."
        )
    measured: dict[tuple[str, str], dict[str, set[int]]] = {}
    for cell in summarize_records(records):
        systems = measured.setdefault((cell.protocol, cell.task), {})
        if cell.system in systems:
            raise ValueError(
                f"{checkpoint.results} has {cell.system} on {cell.task} by {cell.protocol} with more than one choice "
                f"of settings, {cell.settings} among them: a card can show one."
            )
        systems[cell.system] = set(cell.seeds)
    for (protocol, task), systems in measured.items():
        seeds = [systems.get(name) for name in checkpoint.systems]
        if any(one != seeds[0] for one in seeds):
            raise ValueError(
                f"{checkpoint.results}: on {task} by {protocol} the systems have different repeats, {systems}: measure "
                "what is missing first."
            )
    for system in checkpoint.systems:
        prints = {record["system_fingerprint"] for record in records if record["system"] == system}
        if len(prints) > 1:
            raise ValueError(f"{checkpoint.results} has {len(prints)} different models that are called {system!r}.")


def _averages(records: Sequence[Mapping[str, Any]], protocol: str, run: int) -> list[dict[str, Any]]:
    """The mean over the tasks, of each system and repeat."""
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for record in records:
        if record["protocol"] == protocol:
            groups.setdefault((record["system"], record["seed"]), []).append(record)
    averages = []
    for (system, seed), group in groups.items():
        metrics = {name: sum(record["metrics"][name] for record in group) / len(group) for name in METRICS[protocol]}
        averages.append(stated_record(system, MEAN, protocol, metrics, DERIVED, group[0]["settings"], seed, run))
    return averages


def _differences(averages: Sequence[Mapping[str, Any]], checkpoint: Checkpoint, run: int) -> list[dict[str, Any]]:
    """By how many points the checkpoint is above the others, with few examples."""
    means = {c.system: c.metrics["macro_f1"].mean for c in summarize_records(averages) if c.protocol == "few_shot"}
    own, *others = checkpoint.systems
    return [
        stated_record(
            own, MEAN, "points_above", {"macro_f1": 100 * (means[own] - means[other])}, DERIVED, {"to": other}, run=run
        )
        for other in others
    ]


def _stage_metrics(stage: Stage) -> dict[str, Any]:
    options = read_command(stage.command)
    batch = options.per_device_train_batch_size
    return {
        "steps": stage.steps or options.max_steps,
        "batch": None if batch is None else batch * options.processes,
        "max_length": options.max_length,
        "seed": options.seed,
        "hours": stage.hours,
    }


def shape_of(folder: Path) -> dict[str, float]:
    """What a checkpoint's files say of it.

    Args:
        folder: The checkpoint's.

    Returns:
        ``layers``, ``dimensions``, ``vocabulary``, ``max_length``, ``million_parameters``, and ``megabytes`` of all
        files but the card, which says so.

    Raises:
        ValueError: If the pooling is not the one that the template describes.
    """
    from safetensors import safe_open

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config["docsplit"]["pooling"] != "mean":
        raise ValueError(
            f"{folder} has pooling {config['docsplit']['pooling']!r}, and model_cards/templates/checkpoint.md "
            "describes the mean: write it for this one first."
        )
    with safe_open(folder / "model.safetensors", framework="numpy") as weights:
        parameters = sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    return {
        "layers": config["num_hidden_layers"],
        "dimensions": config["hidden_size"],
        "vocabulary": config["vocab_size"],
        "max_length": config["docsplit"]["max_length"],
        "million_parameters": parameters / 1e6,
        "megabytes": size / 1e6,
    }


def render_checkpoint(checkpoint: Checkpoint, results: CardResults) -> str:
    """The card of a checkpoint.

    Args:
        checkpoint: The checkpoint.
        results: Its numbers.

    Returns:
        Markdown with a YAML head.
    """
    template = string.Template((ROOT / "model_cards" / "templates" / "checkpoint.md").read_text(encoding="utf-8"))
    shape, corpus = results.metrics("shape"), results.metrics("corpus")
    hours = results.metrics("training_hours")["hours"]
    return template.substitute(
        metadata=_metadata(checkpoint, results).to_yaml(),
        name=checkpoint.name,
        layers=shape["layers"],
        dimensions=shape["dimensions"],
        vocabulary=f"{shape['vocabulary']:,}",
        max_length=shape["max_length"],
        parameters=f"{shape['million_parameters']:.1f} million",
        megabytes=f"{shape['megabytes']:.1f}",
        documents=f"{corpus['documents']:,}",
        held_out=f"{corpus['held_out']:,}",
        words=f"{corpus['words']:,}",
        longest=max(record["metrics"]["max_length"] for record in results.of("training")),
        hours=f"{hours:.1f}",
        machine=" and ".join(dict.fromkeys(stage.ran_on for stage in checkpoint.stages)),
        commands="\n\n".join(f"# {stage.title}\n{stage.command}" for stage in checkpoint.stages),
        training=_training_table(results),
        summary=_summary(checkpoint, results),
        few_shot=_results_table(checkpoint, results, "few_shot"),
        full=_results_table(checkpoint, results, "full"),
        citation=_results_table(checkpoint, results, "citation"),
        shots=checkpoint.shots,
        draws=_repeats(results, "few_shot"),
        repeats=_repeats(results, "full"),
        tasks=_tasks_table(results),
        evaluation_commands="\n\n".join(dict.fromkeys(_evaluation_commands(results))),
    )


def _metadata(checkpoint: Checkpoint, results: CardResults) -> ModelCardData:
    own = next(iter(checkpoint.systems))
    cells = [cell for cell in _cells(results) if cell.system == own and cell.task != MEAN]
    return ModelCardData(
        language="en",
        license="apache-2.0",
        library_name="sentence-transformers",
        pipeline_tag="feature-extraction",
        metrics=["accuracy", "f1"],
        tags=["docsplit", "document-embeddings", "contrastive-pretraining", "feature-extraction", "bert"],
        model_name=checkpoint.name,
        eval_results=evaluation_results(cells),
    )


def _cells(results: CardResults) -> list[Cell]:
    return summarize_records([record for protocol in METRICS for record in results.of(protocol)])


def _results_table(checkpoint: Checkpoint, results: CardResults, protocol: str) -> str:
    cells = summarize_records(results.of(protocol))
    cells = [
        dataclasses.replace(cell, system=title)
        for system, title in checkpoint.systems.items()
        for cell in cells
        if cell.system == system
    ]
    return table_by_system(cells, METRICS[protocol], "std") if cells else "Not measured."


def _summary(checkpoint: Checkpoint, results: CardResults) -> str:
    own = next(iter(checkpoint.systems))
    [mean] = [c for c in summarize_records(results.of("few_shot")) if c.system == own and c.task == MEAN]
    parts = []
    for record in results.of("points_above"):
        points, other = record["metrics"]["macro_f1"], checkpoint.systems[record["settings"]["to"]]
        where = "above" if points >= 0 else "below"
        level = round(abs(points), 1) == 0
        parts.append(f"level with {other}" if level else f"{abs(points):.1f} points {where} {other}")
    share = f"{100 * mean.metrics['macro_f1'].mean:.2f} %"
    return (
        f"With {checkpoint.shots} examples per class it has a mean macro F1 of {share} over the data sets below: "
        f"{', and '.join(parts)}."
    )


def _repeats(results: CardResults, protocol: str) -> int:
    return max(len(cell.seeds) for cell in summarize_records(results.of(protocol)))


def _training_table(results: CardResults) -> str:
    rows = [
        (
            record["settings"]["stage"],
            f"{record['metrics']['steps']:,}",
            f"{record['metrics']['batch']:,}",
            str(record["metrics"]["max_length"]),
            str(record["metrics"]["seed"]),
            f"{record['metrics']['hours']:.2f} hours",
        )
        for record in results.of("training")
    ]
    return table(("", "steps", "articles a step", "tokens a view", "seed", "duration"), rows)


def _tasks_table(results: CardResults) -> str:
    shown = {record["task"]: record["task_fingerprint"] for record in results.records}
    rows = []
    for name, fingerprint in shown.items():
        if task := results.tasks.get(fingerprint):
            classes = str(task.get("classes", "–"))
            description = TASK_DESCRIPTIONS.get(name, TASKS.get(name, ""))
            rows.append((escape(name), description, f"{task['train']:,}", f"{task['test']:,}", classes))
    return table(("Task", "what it is", "train", "test", "classes"), rows)


def _evaluation_commands(results: CardResults) -> list[str]:
    commands = (run["command"] for run in results.runs)
    return [command for command in commands if "run_evaluation.py" in shlex.split(command)[1]]
