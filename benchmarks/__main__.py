"""Make records of docs/results anew, from which the figures of README and docs are computed.

    python -m benchmarks --list              # the records, hours on two cores, and what they need
    python -m benchmarks --list intents      # and its commands
    python -m benchmarks intents sib200
    python -m benchmarks seventeen --yes     # what takes longer than an hour

Records go into --output, in the folders of docs/results, beside which they can be compared. Most commands keep finished
records, so the same command continues. Copied to docs/results, their figures are written by ``python -m docs.figures``.
Other records have no command here: those of the experiments are on their pages, some are copies of published results,
and of some the code or the data is gone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.recipes import RECIPES, Recipe

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MOST_HOURS = 1


def main() -> None:
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__, formatter_class=how)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="What to make, by the names of --list.")
    add("--list", action="store_true", help="Show the records, or those of the names with their commands.")
    add("--yes", action="store_true", help=f"Start what takes longer than {MOST_HOURS} hour.")
    add("--sets", default="sets", help="The output of benchmarks.quality.sets. Default: %(default)s.")
    add("--data", default="data", help="The data sets of docs/results/README.md. Default: %(default)s.")
    add("--clones", default="clones", help="Clones of repositories, by their names. Default: %(default)s.")
    add("--output", default="output/records", help="Default: %(default)s.")
    options = parser.parse_args()
    known = {recipe.name: recipe for recipe in RECIPES}
    for name in options.names:
        if name not in known:
            parser.error(f"There is no {name!r}: --list shows {', '.join(known)}.")
    chosen = [known[name] for name in options.names]
    places = {name: getattr(options, name) for name in ("sets", "data", "clones", "output")}
    if options.list:
        print(listed(chosen or RECIPES))
        for recipe in chosen:
            print("", *shown_commands(recipe, places), sep="\n")
        return
    if not chosen:
        parser.error("Name what to make, or give --list.")
    hours = sum(recipe.hours for recipe in chosen)
    if hours > MOST_HOURS and not options.yes:
        parser.error(f"This takes about {hours:g} hours on two cores: add --yes to start it.")
    for recipe in chosen:
        check(recipe, places)
    for number, recipe in enumerate(chosen):
        names = [left.name for left in chosen[number:]]
        again = [*(f"--{name}={place}" for name, place in places.items()), "--yes"]
        make(recipe, places, shlex.join(["python", "-m", "benchmarks", *names, *again]))


def listed(recipes: Sequence[Recipe]) -> str:
    """A line for each record: name, hours, file, and on the first one what is needed."""
    lines = [("name", "hours", "record", "needs")]
    for recipe in recipes:
        lines.append((recipe.name, f"{recipe.hours:g}", recipe.records[0], recipe.needs))
        lines += [("", "", record, "") for record in recipe.records[1:]]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join("  ".join([*map(str.ljust, line, widths), line[3]]).rstrip() for line in lines)


def commands(recipe: Recipe, places: Mapping[str, str]) -> list[list[str]]:
    """The arguments of Python for each command, with the data sets of the record in place of ``{tasks}``."""
    expanded = []
    for command in recipe.commands:
        arguments = ["-m"]
        for argument in shlex.split(command):
            if argument in ("{tasks}", "{versions}", "{others}"):
                arguments += [f"{places['sets']}/{name}" for name in sets_of(recipe.records[0], argument)]
            else:
                arguments.append(argument.format(**places))
        expanded.append(arguments)
    return expanded


def sets_of(record: str, which: str) -> list[str]:
    """The data sets in a record, all or by whether they are versions of one text."""
    data = (RESULTS / record).read_bytes()
    text = gzip.decompress(data) if record.endswith(".gz") else data
    found = {}
    for line in text.splitlines():
        row = json.loads(line)
        if which == "{tasks}" or (row["kind"] == "versions") == (which == "{versions}"):
            found[row["task"]] = None
    return list(found)


def shown_commands(recipe: Recipe, places: Mapping[str, str]) -> list[str]:
    """The commands as a person types them."""
    return [f"OMP_NUM_THREADS={recipe.threads} python {shlex.join(command)}" for command in commands(recipe, places)]


def check(recipe: Recipe, places: Mapping[str, str]) -> None:
    """End with what is missing, before any work.

    Raises:
        SystemExit: If a data set or a clone is not there.
    """
    inputs = tuple(places[name] + "/" for name in ("sets", "data", "clones"))
    for command in commands(recipe, places):
        for argument in command:
            if argument.startswith(inputs) and not Path(argument).exists():
                raise SystemExit(
                    f"{recipe.name} needs {recipe.needs}, and {argument} is missing: make it, or give another folder "
                    "with --sets, --data or --clones."
                )


def make(recipe: Recipe, places: Mapping[str, str], again: str) -> None:
    """Run the commands of a recipe.

    Raises:
        SystemExit: If one fails, with the command that continues.
    """
    for record in recipe.records:
        Path(places["output"], record).parent.mkdir(parents=True, exist_ok=True)
    for command, shown in zip(commands(recipe, places), shown_commands(recipe, places), strict=True):
        print(f"{recipe.name}, about {recipe.hours:g} hours: {shown}", flush=True)
        environment = os.environ | {"OMP_NUM_THREADS": str(recipe.threads)}
        ended = subprocess.run([sys.executable, *command], env=environment, check=False)
        if ended.returncode:
            raise SystemExit(f"{recipe.name} failed with exit code {ended.returncode}. To continue:\n{again}")


if __name__ == "__main__":
    main()
