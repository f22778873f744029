"""PaperSettings: options of the papers' experiments, and the preset with the papers' own values."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from transformers.hf_argparser import HfArg

from docsplit_hf.apps.cli.run_command import read_json_option
from docsplit_hf.finetuning.arguments import KNNClassifierTrainingArguments

from .evaluation.experiment import EvaluationSettings
from .tasks.known_tasks import NEWSGROUPS

NO_SEED = 0  # for deterministic measurements, which another --seed need not repeat
PROBES = ("mlp", "logistic")
CALIBRATED = "calibrated"
FIXED = "fixed"
ORACLE = "oracle"
NEIGHBORS_PROTOCOLS = (CALIBRATED, FIXED, ORACLE)
PAPER_SHOTS = {"fakenews": 10, "arxiv": 10, "20news": 5, "nyt": 5, "bbc": 5, "bbcnews": 5}
OTHER_SHOTS = 5
DECIDED_BY_EXPERIMENT = {"output_dir", "seed", "triplet_weight"}  # training arguments
# --preset papers: the options that DocSplit, SimDE and SimLTE used. They "repeat every experiment 10 times" (DocSplit,
# appendix A.1). Their posts of 20 Newsgroups have a median of 153 words, like posts without headers.
PAPERS = {
    "protocol": ["full", "few_shot", "curve", "citation", "redundancy", "attention"],
    "probe": "mlp",
    "few_shot_probe": "mlp",
    "shots": None,
    "repeats": 10,
    "seeds": 10,
    "max_length": 512,
    "newsgroups": "body",
}


@dataclass
class PaperSettings(EvaluationSettings):
    """Options of the papers' experiments. All defaults but three are the papers' (DocSplit, appendix A.1).

    ``few_shot_probe`` is ``"logistic"``, because five examples per class are too few for early stopping of the papers'
    MLP; ``seeds`` is 3, because ten draws are needed for few examples only; ``newsgroups`` is ``"stripped"``, because
    headers and signatures reveal the group. ``PAPERS`` has the papers' values.
    """

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
    shots: int | None = HfArg(
        default=None, help="Training examples per class in 'few_shot'. Default: as in the papers, 5 or 10 by task."
    )
    newsgroups: str = HfArg(
        default="stripped",
        help="What is left of the posts of 20News: 'raw', all; 'body', all but headers, most likely as in the papers; "
        "'stripped', neither headers nor signatures nor quotations. The tables say which.",
        metadata={"choices": list(NEWSGROUPS)},
    )
    neighbors_protocol: list[str] = HfArg(
        default_factory=lambda: [CALIBRATED],
        help="How k, T and lambda are chosen in 'decoupled' and 'retrieval_vectors', one or several: 'calibrated' on "
        "held-out examples; 'fixed': k 64, T 10, and lambda by the paper's table 3 or --knn_weight; 'oracle': k 64, T "
        "10, and the lambda that is best on the test set, as the paper did.",
        metadata={"choices": list(NEIGHBORS_PROTOCOLS)},
    )
    knn_weight: float | None = HfArg(default=None, help="Lambda of 'fixed', from 0 to 1. Default: the paper's table 3.")
    fine_tuning: dict | str | None = HfArg(
        default=None,
        help="How encoders are fine-tuned in 'decoupled', 'retrieval_vectors' and 'neighbors_sweep': training "
        "arguments as JSON, such as '{\"learning_rate\": 1e-4}'. Default: the paper's table 3 for its tasks.",
    )
    tagger: str = HfArg(
        default="en_core_web_sm",
        help="Tagger of parts of speech for 'redundancy' and 'attention': a pipeline of spaCy, or 'nltk' for English.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fine_tuning: dict[str, Any] = read_json_option("fine_tuning", self.fine_tuning, "learning_rate") or {}
        _check_training_arguments(self.fine_tuning)
        if self.knn_weight is not None and not 0 <= self.knn_weight <= 1:
            raise ValueError(f"knn_weight must be from 0 to 1, got {self.knn_weight}.")
        for protocol in self.neighbors_protocol:
            if protocol not in NEIGHBORS_PROTOCOLS:
                raise ValueError(f"neighbors_protocol must be of {', '.join(NEIGHBORS_PROTOCOLS)}, got {protocol!r}.")
        for name in ("probe", "few_shot_probe"):
            if getattr(self, name) not in PROBES:
                raise ValueError(f"{name} must be one of {', '.join(PROBES)}, got {getattr(self, name)!r}.")

    def shots_of(self, task_name: str) -> int:
        """Training examples per class in ``few_shot``: the given number, or the papers' for this task."""
        return self.shots or PAPER_SHOTS.get(task_name.lower(), OTHER_SHOTS)


def _check_training_arguments(names: Iterable[str]) -> None:
    known = {field.name for field in dataclasses.fields(KNNClassifierTrainingArguments)} - DECIDED_BY_EXPERIMENT
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " It takes those of KNNClassifierTrainingArguments."
            raise ValueError(f"fine_tuning has no training argument {name!r}.{hint}")
