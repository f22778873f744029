"""The results.json of a card: every number that the card shows, with where it is from."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docsplit_hf.experiments.records.results import format_results

ROOT = Path(__file__).parents[1]
WRITTEN_BY = "python model_cards/write_cards.py"
# Where a number is from, for what no run of run_evaluation.py measured; such a record has a field "origin".
PAPER = "printed in a paper"
ESTIMATE = "estimated by arithmetic"
STATED = "stated of the training or read from the files"
DERIVED = "computed from the other records"


@dataclass(frozen=True)
class CardResults:
    """What stands in the ``results.json`` beside a card.

    Args:
        runs: What the field ``run`` of the records counts in.
        tasks: What the tasks consist of, by fingerprint.
        records: The records.

    Example:

        >>> record = stated_record("A", "B", "shape", {"layers": 2}, STATED)
        >>> CardResults([], {}, [record]).metrics("shape")
        {'layers': 2}
    """

    runs: Sequence[Mapping[str, Any]]
    tasks: Mapping[str, Mapping[str, Any]]
    records: Sequence[Mapping[str, Any]]

    def of(self, protocol: str) -> list[Mapping[str, Any]]:
        """The records of a protocol."""
        return [record for record in self.records if record["protocol"] == protocol]

    def metrics(self, protocol: str) -> Mapping[str, float]:
        """The metrics of a protocol that has one record."""
        [record] = self.of(protocol)
        return record["metrics"]

    def text(self) -> str:
        """The file."""
        return format_results(self.runs, self.tasks, self.records)


def stated_record(
    system: str,
    task: str,
    protocol: str,
    metrics: Mapping[str, float],
    origin: str,
    settings: Mapping[str, Any] | None = None,
    seed: int | None = None,
    run: int = 0,
) -> dict[str, Any]:
    """A record that no run of ``run_evaluation.py`` made: its ``origin`` says where it is from.

    Args:
        system: What it is about.
        task: On what.
        protocol: What the metrics are.
        metrics: The numbers.
        origin: Where they are from.
        settings: What they depend on.
        seed: The seed, None where there is none.
        run: Which of the runs wrote it.

    Returns:
        A record with the fields of a measured one. What a fingerprint would tell apart, the names do here.

    Example:

        >>> stated_record("A", "B", "full", {"accuracy": 0.5}, PAPER)["origin"]
        'printed in a paper'
    """
    return {
        "system": system,
        "system_fingerprint": f"{origin}: {system}",
        "task": task,
        "task_fingerprint": f"{origin}: {task}",
        "protocol": protocol,
        "settings": dict(settings or {}),
        "seed": seed,
        "metrics": dict(metrics),
        "seconds": None,
        "run": run,
        "origin": origin,
    }


def writing_run(what: str) -> dict[str, Any]:
    """What stands among the runs for what was not measured by one.

    Example:

        >>> writing_run("nothing was run")["ran_on"]
        'nothing was run'
    """
    return {"command": WRITTEN_BY, "date": "", "ran_on": what, "versions": {}}


def read_command(command: str) -> argparse.Namespace:
    """What a card says of a training command, read from the command.

    Args:
        command: A command with ``run_pretrain.py``, for bash.

    Returns:
        ``max_steps``, ``per_device_train_batch_size``, ``max_length``, ``seed``, None where they are not given; and
        ``processes``, from ``--num_processes`` or accelerate's file.

    Example:

        >>> options = read_command("python examples/run_pretrain.py --max_steps 9 --seed 1")
        >>> options.max_steps, options.seed, options.max_length, options.processes
        (9, 1, None, 1)
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("max_steps", "per_device_train_batch_size", "max_length", "seed", "num_processes"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--config_file")
    options, _ = parser.parse_known_args(shlex.split(command))
    options.processes = options.num_processes or 1
    if options.config_file and not options.num_processes:
        import yaml

        options.processes = yaml.safe_load((ROOT / options.config_file).read_text())["num_processes"]
    return options
