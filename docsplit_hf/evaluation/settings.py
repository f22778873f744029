"""What docsplit evaluate measures, and how often. Imports neither torch nor transformers."""

from __future__ import annotations

from dataclasses import dataclass, field

PROTOCOLS = {
    "full": "a probe on frozen features, the whole training set",
    "few_shot": "the same with a few examples per class",
    "half_documents": "given one half of a text, find the other; needs no labels",
}


@dataclass
class ComparisonSettings:
    """What is measured, and how often."""

    protocol: list[str] = field(
        default_factory=lambda: ["full", "few_shot"],
        metadata={
            "help": "The protocols. "
            + "; ".join(f"{name}: {description}" for name, description in PROTOCOLS.items())
            + ".",
            "choices": list(PROTOCOLS),
        },
    )
    shots: list[int] = field(
        default_factory=lambda: [5],
        metadata={"help": "Training examples per class in 'few_shot'; several numbers make a curve."},
    )
    repeats: int = field(default=10, metadata={"help": "Draws of the few examples."})
    max_length: int = field(default=512, metadata={"help": "Longest text in tokens that encoders read."})
    seed: int = field(default=0, metadata={"help": "First seed of the draws."})

    def __post_init__(self) -> None:
        for name in ("repeats", "max_length"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        if min(self.shots, default=0) < 1:
            raise ValueError(f"shots must be numbers from 1, got {self.shots}.")
