"""SetFit, fitted and evaluated in a process of the rivals' own environment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.few_labels.protocol import Answer, FewLabels, as_one_text

RIVALS = {"setfit": "setfit_rival.py", "setfit_tuned": "setfit_rival.py"}


def run_rival(
    python: str, system: str, options: dict[str, Any], task: FewLabels, rows: np.ndarray, encoder: str, seed: int
) -> Answer:
    """The rival's answers; ``seed`` is the number of the draw."""
    given = {
        "model": encoder,
        "tuned": system.endswith("_tuned"),
        "options": options,
        "seed": seed,
        "texts": as_one_text([task.pool[row] for row in rows]),
        "labels": task.pool_labels[rows].tolist(),
        "test": as_one_text(task.test),
    }
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.json"
        command = [python, Path(__file__).with_name(RIVALS[system]), answers]
        try:
            subprocess.run(command, input=json.dumps(given), text=True, check=True)
        except FileNotFoundError:
            raise SystemExit(f"There is no {python}: make it, see rivals_requirements.txt, or give --python.") from None
        answer = json.loads(answers.read_text())
    probabilities = np.array(answer.pop("probabilities"))
    return Answer(probabilities, **answer)
