"""What constants reach that are chosen on other tasks: of each task, those that are best in the mean over the rest.

python benchmarks/few_labels/run.py --tasks data/* --systems ours ours#experts.ROUNDS=1 ... --records constants.jsonl
python benchmarks/few_labels/leave_one_out.py --records constants.jsonl
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))  # for few_labels

from few_labels.records import read_records

from docsplit_hf.training.markdown import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, required=True, help="A file of run.py, of one encoder.")
    found = leave_one_out(pd.DataFrame(read_records(parser.parse_args().records)))
    print(table(("Task", "Labels", "Chosen on the others", "Macro F1", "As shipped"), rows(found)))


def leave_one_out(frame: pd.DataFrame) -> pd.DataFrame:
    """For each task and number of labels, the system that is ``chosen``, its macro F1, and that ``as_shipped``."""
    frame = frame[frame["system"].str.partition("#")[0] == "ours"]
    found = []
    for labels, mine in frame.groupby("per_label"):
        scores = mine.groupby(["task", "system"])["macro_f1"].mean().unstack("system").dropna(axis=1)
        for task in scores.index:
            chosen = scores.drop(index=task).mean().idxmax()
            of_task = scores.loc[task]
            found.append((task, labels, chosen.removeprefix("ours#"), of_task[chosen], of_task["ours"]))
    return pd.DataFrame(found, columns=["task", "per_label", "chosen", "macro_f1", "as_shipped"])


def rows(found: pd.DataFrame) -> list[tuple]:
    """Cells of the table, and the means last."""
    cells = [(*row[:3], *(f"{100 * value:.1f}" for value in row[3:])) for row in found.itertuples(index=False)]
    for labels, mine in found.groupby("per_label"):
        means = mine[["macro_f1", "as_shipped"]].mean()
        cells.append(("**mean**", labels, "", *(f"{100 * value:.1f}" for value in means)))
    return cells


if __name__ == "__main__":
    main()
