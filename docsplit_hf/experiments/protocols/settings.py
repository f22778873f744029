"""EvaluationSettings: how the papers' experiments are run."""

from __future__ import annotations

from dataclasses import dataclass, field

PROBES = ("mlp", "logistic")
PAPER_SHOTS = {"fakenews": 10, "arxiv": 10, "20news": 5, "nyt": 5, "bbc": 5, "bbcnews": 5}
OTHER_SHOTS = 5


@dataclass
class EvaluationSettings:
    """How the papers' experiments are run. The defaults are the papers' (DocSplit, appendix A.1) where they say.

    Args:
        max_length: The longest text in tokens; what is longer is cut. The papers' 512.
        probe: What classifies frozen features with the full training set: ``"mlp"``, one hidden layer as in the papers,
            or ``"logistic"``, the quick alternative.
        few_shot_probe: The same with a few examples per class. The papers use the MLP here too; the default is
            ``"logistic"``, because five examples per class leave none to stop the MLP early by.
        seeds: Repeats of ``full``, ``knn``, ``decoupled``, ``citation``, ``half_documents`` and ``redundancy``, with
            the seeds ``seed``, ``seed + 1`` and so on. The papers do not say how often they ran.
        shots: Training examples per class in ``few_shot``. None: the papers' 10 for FakeNews and arXiv, 5 for 20News,
            NYT and BBCNews, and 5 for other tasks.
        repeats: Random draws of the few training examples. The papers' 10.
        curve_shots: The numbers of examples per class in ``curve``.
        max_train_examples: Use a random sample of so many training examples. None: all.
        max_test_examples: Use a random sample of so many test examples, of pairs, or of the texts of a corpus. None:
            all.
        seed: Where the seeds begin.
        spacy_pipeline: The spaCy pipeline that tells nouns, verbs and adjectives in ``redundancy`` and ``attention``.

    Raises:
        ValueError: If a value is out of its range.

    Example:

        >>> settings = EvaluationSettings(repeats=3, seed=5)
        >>> settings.shots_of("arxiv"), settings.shots_of("my.csv"), settings.seeds_of(settings.repeats)
        (10, 5, [5, 6, 7])
    """

    max_length: int = field(
        default=512, metadata={"help": "Longest text in tokens; the rest is cut. The papers use 512."}
    )
    probe: str = field(
        default="mlp",
        metadata={
            "help": "What classifies frozen features in 'full': 'mlp' as in the papers, or 'logistic', which is quick.",
            "choices": list(PROBES),
        },
    )
    few_shot_probe: str = field(
        default="logistic",
        metadata={"help": "The same in 'few_shot' and 'curve'. The papers use 'mlp'.", "choices": list(PROBES)},
    )
    seeds: int = field(default=3, metadata={"help": "Repeats of all protocols but few_shot and curve."})
    shots: int | None = field(
        default=None,
        metadata={"help": "Training examples per class in 'few_shot'. Default: as in the papers, 5 or 10 by task."},
    )
    repeats: int = field(default=10, metadata={"help": "Draws of the few examples. The papers use 10."})
    curve_shots: list[int] = field(
        default_factory=lambda: [1, 2, 5, 10, 20, 50], metadata={"help": "Training examples per class in 'curve'."}
    )
    max_train_examples: int | None = field(
        default=None, metadata={"help": "Use a random sample of so many training examples."}
    )
    max_test_examples: int | None = field(
        default=None, metadata={"help": "Use a random sample of so many test examples, or texts of a corpus."}
    )
    seed: int = field(default=0, metadata={"help": "Where the seeds of the repeats begin."})
    spacy_pipeline: str = field(
        default="en_core_web_sm",
        metadata={"help": "The spaCy pipeline that tells parts of speech in 'redundancy' and 'attention'."},
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
        """Training examples per class in ``few_shot``.

        Args:
            task_name: The task.

        Returns:
            ``shots``, or the papers' number for this task.

        Example:

            >>> EvaluationSettings().shots_of("fakenews"), EvaluationSettings(shots=3).shots_of("fakenews")
            (10, 3)
        """
        return self.shots or PAPER_SHOTS.get(task_name.lower(), OTHER_SHOTS)

    def seeds_of(self, repeats: int) -> list[int]:
        """The seeds of so many repeats.

        Args:
            repeats: How many.

        Returns:
            The seeds.

        Example:

            >>> EvaluationSettings(seed=2).seeds_of(2)
            [2, 3]
        """
        return list(range(self.seed, self.seed + repeats))
