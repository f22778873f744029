"""Train the first tenth of what ships again, and compare the losses with those that were written down.

    python benchmarks/study/repeat.py

The commands, seeds and schedules are the same, and end after a tenth of the steps. It needs wikipedia.jsonl in the
working folder, and the common start in --folder (run.py --stages start). It ends with an error where a loss is further
away than --tolerance.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from losses import read_losses, relative_differences
from runs import SHIPPED, START, Run, shipped_run, start_run

from docsplit_hf.training.checkpoints import complete_checkpoints
from docsplit_hf.training.markdown import table

WRITTEN_DOWN = Path(__file__).parents[2] / "docs" / "results" / "study" / "losses.json"


def train_until(run: Run, steps: int, folder: Path) -> dict[int, float]:
    """The losses of the first steps of a run, made anew, which is stopped at its first checkpoint, after so many."""
    run = dataclasses.replace(run, options=run.options | {"save_steps": steps})
    log = folder / f"{run.name}.log"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / run.name, ignore_errors=True)
    with log.open("w") as output:
        command = run.command(str(folder))
        print(" ".join(command), flush=True)
        command[0] = {"python": sys.executable}.get(command[0], command[0])
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        try:
            while process.poll() is None and not complete_checkpoints(folder / run.name):
                time.sleep(1)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    losses = {step: loss for step, loss in read_losses(folder / run.name).items() if step <= steps}
    if not losses:
        raise RuntimeError(f"{run.name} ended before step {steps}: see {log}")
    return losses


def compare(losses: dict[int, float], reference: dict[int, float]) -> tuple[str, float]:
    """A table of both, and the largest relative difference."""
    differences = relative_differences(losses, reference)
    if not differences:
        raise ValueError("The runs have no logged step in common: log as often as then (--logging_steps).")
    rows = [
        (str(step), f"{reference[step]:.4f}", f"{losses[step]:.4f}", f"{100 * difference:+.2f} %")
        for step, difference in differences.items()
    ]
    return table(("step", "loss then", "loss now", "difference"), rows), max(map(abs, differences.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--runs", nargs="+", choices=(START, SHIPPED), default=(START, SHIPPED), help="Default: both.")
    add("--folder", default="output/study", help="Where the common start is. Default: %(default)s.")
    add("--output", type=Path, default=Path("output/repeat"), help="Of the repeated runs. Default: %(default)s.")
    add("--share", type=float, default=0.1, help="Of the steps. Default: %(default)s.")
    add("--tolerance", type=float, default=0.02, help="Largest relative difference. Default: %(default)s.")
    options = parser.parse_args()
    written_down = json.loads(WRITTEN_DOWN.read_text(encoding="utf-8"))
    far = []
    for run in (start_run(), shipped_run(options.folder)):
        if run.name in options.runs:
            steps = round(options.share * run.options["max_steps"])
            reference = {int(step): loss for step, loss in written_down[run.name].items() if int(step) <= steps}
            if not reference:
                raise ValueError(f"{WRITTEN_DOWN} has no loss of the first {steps} steps: raise --share.")
            losses = train_until(run, steps, options.output)
            comparison, largest = compare(losses, reference)
            print(f"{run.name}\n{comparison}\nLargest difference: {100 * largest:.2f} %\n", flush=True)
            if largest > options.tolerance:
                far.append(run.name)
    if far:
        raise SystemExit(f"{', '.join(far)}: further from what was written down than {100 * options.tolerance:g} %.")


if __name__ == "__main__":
    main()
