"""Weighted means of what a training step measures, over steps and processes."""

from __future__ import annotations

import torch

from .distributed import sum_over_processes


class RunningMeans:
    """Adds up sums and weights under names, and gives their ratios over all processes when asked.

    The sums stay on the device, so that a step does not wait for them.
    """

    def __init__(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}

    def add(self, name: str, total: torch.Tensor, weight: torch.Tensor | float) -> None:
        """Add the sum of some values, a scalar tensor, and their number to one of the means."""
        total = total.detach().float()
        pair = torch.stack([total, torch.as_tensor(weight, dtype=torch.float32, device=total.device)])
        self._sums[name] = self._sums[name] + pair if name in self._sums else pair

    def means(self) -> dict[str, float]:
        """The means over all processes that have a weight. Every process must call it."""
        if not self._sums:
            return {}
        totals = sum_over_processes(torch.stack(list(self._sums.values()))).tolist()
        return {name: total / weight for name, (total, weight) in zip(self._sums, totals, strict=True) if weight}

    def pop(self) -> dict[str, float]:
        """The means over all processes, to start anew after it. Every process must call it."""
        means = self.means()
        self._sums = {}
        return means
