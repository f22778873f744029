"""EvaluationSettings: how the papers' experiments are run."""

from __future__ import annotations

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

PROBES = ("mlp", "logistic")
PAPER_SHOTS = {"fakenews": 10, "arxiv": 10, "20news": 5, "nyt": 5, "bbc": 5, "bbcnews": 5}
OTHER_SHOTS = 5


@dataclass
class EvaluationSettings:
    """How the papers' experiments are run; the defaults are the papers' (DocSplit, appendix A.1) where they say.

    ``few_shot_probe`` is ``"logistic"``, because five examples per class leave none to stop the papers' MLP early by.
    The papers do not say how often they ran (``seeds``).
    """

    max_length: int = HfArg(default=512, help="Longest text in tokens; the rest is cut. The papers use 512.")
    probe: str = HfArg(
        default="mlp",
        help="What classifies frozen features in 'full': 'mlp' as in the papers, or 'logistic', which is quick.",
        metadata={"choices": list(PROBES)},
    )
    few_shot_probe: str = HfArg(
        default="logistic",
        help="The same in 'few_shot' and 'curve'. The papers use 'mlp'.",
        metadata={"choices": list(PROBES)},
    )
    seeds: int = HfArg(default=3, help="Repeats of all protocols but few_shot and curve.")
    shots: int | None = HfArg(
        default=None, help="Training examples per class in 'few_shot'. Default: as in the papers, 5 or 10 by task."
    )
    repeats: int = HfArg(default=10, help="Draws of the few examples. The papers use 10.")
    curve_shots: list[int] = HfArg(
        default_factory=lambda: [1, 2, 5, 10, 20, 50], help="Training examples per class in 'curve'."
    )
    max_train_examples: int | None = HfArg(default=None, help="Use a random sample of this many training examples.")
    max_test_examples: int | None = HfArg(
        default=None, help="Use a random sample of this many test examples, or texts of a corpus."
    )
    seed: int = HfArg(default=0, help="Where the seeds of the repeats begin.")
    spacy_pipeline: str = HfArg(
        default="en_core_web_sm",
        help="The spaCy pipeline that tells parts of speech in 'redundancy' and 'attention'.",
    )

    def __post_init__(self) -> None:
        self.curve_shots = sorted(set(self.curve_shots))
        for name in ("probe", "few_shot_probe"):
            if getattr(self, name) not in PROBES:
                raise ValueError(f"{name} must be one of {', '.join(PROBES)}, got {getattr(self, name)!r}.")
        for name in ("max_length", "seeds", "repeats", "shots", "max_train_examples", "max_test_examples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        if not self.curve_shots or self.curve_shots[0] < 1:
            raise ValueError(f"curve_shots must be numbers from 1, got {self.curve_shots}.")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}.")

    def shots_of(self, task_name: str) -> int:
        """Training examples per class in ``few_shot``: those given, or the papers' for this task."""
        return self.shots or PAPER_SHOTS.get(task_name.lower(), OTHER_SHOTS)

    def seeds_of(self, repeats: int) -> list[int]:
        """The seeds of this many repeats."""
        return list(range(self.seed, self.seed + repeats))
