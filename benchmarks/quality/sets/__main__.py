"""Convert public data sets to the jsonl that the benchmark of few labels reads.

    python -m benchmarks.quality.sets --clones clones --prepared data --output sets
    python -m benchmarks.quality.few_labels.run --tasks sets/* --records output/few_labels.jsonl

The folder of clones holds each repository as OWNER+NAME, with or without a working tree. Sets without a clone are
named and left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.quality.sets.convert import split, summary, write
from benchmarks.quality.sets.listing import SETS
from benchmarks.quality.sets.prepared_sets import PREPARED
from benchmarks.quality.sets.records import Clone, DataSet

Line = dict[str, str | int | float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--clones", type=Path, help="The folder of clones.")
    add("--prepared", type=Path, help="The folder of sets that are prepared already.")
    add("--output", type=Path, required=True, help="The folder in which each set gets one of its own.")
    add("--records", type=Path, help="A file of jsonl for a line on each set. Default: sets.jsonl in the output.")
    add("--only", nargs="+", metavar="NAME", help="Convert these alone.")
    options = parser.parse_args()
    wanted = [(dataset, options.prepared) for dataset in PREPARED] + [(dataset, options.clones) for dataset in SETS]
    records = options.records or options.output / "sets.jsonl"
    lines = read_lines(records)
    for dataset, folder in wanted:
        if options.only and dataset.name not in options.only:
            continue
        place = None if folder is None else folder / folder_name(dataset)
        if place is None or not place.exists():
            print(f"{dataset.name}: no folder {place}, left out", flush=True)
            continue
        lines[dataset.name] = convert(dataset, Clone(folder=place, commit=dataset.commit), options.output)
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines.values())
        records.write_text(text, encoding="utf-8")


def read_lines(records: Path) -> dict[str, Line]:
    """The lines of the records by the names of their sets."""
    if not records.exists():
        return {}
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    return {line["name"]: line for line in lines}


def folder_name(dataset: DataSet) -> str:
    """The name of the set's folder among the clones, or among the prepared sets."""
    if dataset in PREPARED:
        return dataset.prepared_as or dataset.name
    return dataset.repository.replace("/", "+")


def convert(dataset: DataSet, clone: Clone, output: Path) -> Line:
    """Write a set, and return its line of the records."""
    splits = split(dataset, dataset.read(clone))
    folder = output / dataset.name
    folder.mkdir(parents=True, exist_ok=True)
    write(splits.train, folder / "train.jsonl")
    write(splits.test, folder / "test.jsonl")
    figures = summary(dataset, splits)
    print(dataset.name, *figures, flush=True)
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "language": dataset.language,
        "repository": dataset.repository,
        "commit": dataset.commit,
        "path": dataset.path,
        "license": dataset.license,
        "note": dataset.note,
    } | figures._asdict()


if __name__ == "__main__":
    main()
