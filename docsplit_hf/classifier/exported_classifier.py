"""Classifier: a saved classifier that answers without torch and transformers, once ``docsplit export`` prepared it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arrays.probe import check_probe
from ..encoding.exported.embedder import ExportedEmbedder
from ..fitting.ensemble.scoring import prepare_experts
from ..fitting.prediction import raise_if_unreadable
from ..reading.inputs import as_list, expand_paths
from ..reading.text_warnings import sum_up_warnings
from ..storage.classifier_folder import CONFIG
from ..storage.datastore_files import load_snapshot
from .answering import Answering, NeighborVote
from .call_options import READING_OPTIONS, checked_options

if TYPE_CHECKING:
    from ..arrays.snapshot import Snapshot
    from ..arrays.store import View
    from ..fitting.ensemble.scoring import PreparedExperts


class Classifier:
    """A saved classifier that answers as its pipeline does, in a process without torch and transformers.

    ``docsplit export FOLDER`` writes its encoder, pooling and heads as a graph for ONNX Runtime; ``pip install
    'docsplit_hf[onnx]'`` installs what this takes. The classifier cannot be changed: for that there is
    ``pipeline("docsplit-knn")``.

    Args:
        folder: A folder that ``pipe.save_pretrained`` or ``docsplit fit`` wrote.
        trust: Whether to open a graph that somebody else exported. It reaches a parser in native code.

    Raises:
        FileNotFoundError: If there is no such folder, or no exported model in it.
        ModuleNotFoundError: If ONNX Runtime is not installed.
        ValueError: If the graph was changed, is of another encoder, or was exported by somebody else.

    Example:

        >>> classify = Classifier("contracts")  # doctest: +SKIP
        >>> classify("The tenant pays the rent monthly.", reject=0.05)  # doctest: +SKIP
        [{'label': 'lease', 'score': 0.97}]
    """

    def __init__(self, folder: str | Path, trust: bool = False) -> None:
        folder = Path(folder)
        self._embedder = ExportedEmbedder(folder, trust)
        self._snapshot = load_snapshot(folder, None, None, memory_map=True)
        check_probe(self._embedder.probe(), self._snapshot.probe)
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        default = NeighborVote()
        self._vote = NeighborVote(
            k=config.get("k", default.k),
            temperature=config.get("knn_temperature", default.temperature),
            weight=config.get("knn_weight", default.weight),
        )
        self._experts = prepare_experts(self._snapshot)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self._snapshot.label_names

    @sum_up_warnings()
    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Classify texts and files; inputs, options and answers are those of ``pipeline("docsplit-knn")``.

        Args:
            inputs: A text, the ``Path`` of a file or a folder, or a list of these.
            **options: Options of the pipeline's call, such as ``top_k``, ``reject``, ``labels_at``, ``explain`` and
                ``return_neighbors``; those for reading (``max_length``, ``batch_size``, ...) were fixed by the export.

        Returns:
            An answer for each input, as the pipeline gives it; for a single text a list.

        Raises:
            TypeError: If an option is unknown, or an input is neither a text nor a path.
            ValueError: If an option is out of its range, or an input is a pair of texts.
        """
        checked = checked_options(**options)
        fixed = [name for name in READING_OPTIONS if name in checked]
        if fixed:
            raise TypeError(f"{fixed[0]} was fixed when the classifier was exported: leave it out.")
        is_text = isinstance(inputs, str)
        is_file = isinstance(inputs, Path) and inputs.is_file()
        items = [inputs] if is_text else expand_paths(as_list(inputs))
        answering = Answering(
            open_store=lambda: _OneState(self._snapshot),
            prepare_experts=self._experts_of,
            embed=self._embedder.embed,
            vote=self._vote,
            options=checked,
        )
        answers = list(answering.answers(iter(items), len(items)))
        if is_file:
            raise_if_unreadable(answers[0])
        is_list_of_best = (is_text or is_file) and "top_k" in checked
        return answers[0] if is_list_of_best else answers

    def _experts_of(self, _: View) -> PreparedExperts | None:
        return self._experts


class _OneState:
    """A store that never changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def view(self) -> Snapshot:
        """The only state."""
        return self._snapshot
