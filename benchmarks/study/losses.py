"""The losses of a run as its trainer wrote them down, and how far two runs are apart."""

from __future__ import annotations

import json
from pathlib import Path

from docsplit_hf.training.checkpoints import STATE_FILE, complete_checkpoints


def read_losses(folder: Path) -> dict[int, float]:
    """The mean losses since the last log by step, from the last complete checkpoint; empty where there is none."""
    checkpoints = complete_checkpoints(folder)
    if not checkpoints:
        return {}
    history = json.loads((checkpoints[-1] / STATE_FILE).read_text(encoding="utf-8"))["log_history"]
    return {entry["step"]: entry["loss"] for entry in history if "loss" in entry}


def relative_differences(losses: dict[int, float], reference: dict[int, float]) -> dict[int, float]:
    """How far each loss is from that of the same step in a reference, as a share of the latter."""
    return {step: losses[step] / reference[step] - 1 for step in sorted(losses.keys() & reference.keys())}
