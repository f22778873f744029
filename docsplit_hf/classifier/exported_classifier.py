"""ExportedClassifier: answers of a saved classifier without torch and transformers, after ``docsplit export``."""

from __future__ import annotations

import importlib.util
import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..arrays.passages import Predictions
from ..arrays.probe import check_probe
from ..arrays.snapshot import Snapshot
from ..content_hash import sha256_of_file, sha256_of_json
from ..encoding.exported.embedder import GRAPH, ExportedEmbedder
from ..extras import is_full_installation
from ..fitting.ensemble.scoring import prepare_experts
from ..fitting.prediction import Prediction, raise_if_unreadable
from ..reading.inputs import as_list
from ..reading.text_warnings import sum_up_warnings
from ..storage.classifier_folder import CONFIG, EXPORTED, FOLDER, TEXTS
from ..storage.datastore_files import load_snapshot
from ..storage.manifest import MANIFEST
from ..storage.texts_as_json import load_with_texts, source_of_texts
from .answering import Answering, CallOptions, NeighborVote, checked_options, reading_options

logger = logging.getLogger(__name__)


class ExportedClassifier:
    """A saved classifier that answers as its pipeline does, in a process without torch and transformers.

    ``docsplit export FOLDER`` writes its encoder, pooling and heads as a graph for ONNX Runtime; ``pip install
    'docsplit_hf[onnx]'`` installs what this takes. The classifier cannot be changed: for that there is
    ``pipeline("docsplit-knn")``.

    Args:
        folder: A folder that ``pipe.save_pretrained`` or ``docsplit fit`` wrote.
        trust: Whether to open a graph that somebody else exported. It reaches a parser in native code.
        threads: The threads that run the graph. None: one for each core.

    Raises:
        FileNotFoundError: If there is no such folder, or no exported model in it.
        ModuleNotFoundError: If ONNX Runtime is not installed.
        ValueError: If the graph was changed, is of another encoder, or was exported by somebody else.

    Example:

        >>> classify = ExportedClassifier("contracts")  # doctest: +SKIP
        >>> classify("The tenant pays the rent monthly.", reject=0.05)  # doctest: +SKIP
        [{'label': 'lease', 'score': 0.97}]
    """

    def __init__(self, folder: str | Path, trust: bool = False, threads: int | None = None) -> None:
        folder = Path(folder)
        self.embedder = ExportedEmbedder(folder, trust, threads)
        texts = folder / EXPORTED / TEXTS  # read without pyarrow, unless the examples were changed since the export
        if texts.is_file() and source_of_texts(folder) == self.embedder.config.texts_of:
            if sha256_of_file(texts) != self.embedder.config.texts_sha256:
                raise ValueError(f"{texts} is not the file that was exported: run docsplit export {folder} again.")
            snapshot = load_with_texts(folder, texts)
        elif importlib.util.find_spec("pyarrow") is None:
            raise ValueError(
                f"{folder} was changed since it was exported, and its examples are read by pyarrow, which is not "
                f"installed: run docsplit export {folder} again where docsplit_hf is installed."
            )
        else:
            snapshot = load_snapshot(folder, None, None, memory_map=True)
        check_probe(self.embedder.probe(), snapshot.probe)
        self.datastore = FixedStore(snapshot, sha256_of_file(folder / FOLDER / MANIFEST))
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        default = NeighborVote()
        self._vote = NeighborVote(
            k=config.get("k", default.k),
            temperature=config.get("knn_temperature", default.temperature),
            weight=config.get("knn_weight", default.weight),
        )
        self._experts = prepare_experts(snapshot)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.datastore.label_names

    @sum_up_warnings()
    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Classify texts and files; inputs, options and answers are those of ``pipeline("docsplit-knn")``.

        Args:
            inputs: A text; a pair of texts as a dictionary with ``text`` and ``text_pair``; the ``Path`` of a file or
                a folder; or a list of these.
            **options: Options of the pipeline's call, such as ``top_k``, ``reject``, ``labels_at``, ``explain`` and
                ``return_neighbors``, without ``bf16``.

        Returns:
            An answer for each input, as the pipeline gives it; for a single text a list.

        Raises:
            TypeError: If an option is unknown, or an input is neither a text nor a path.
            ValueError: If an option is out of its range.
        """
        checked = checked_options(**options)
        is_text = isinstance(inputs, str)
        is_file = isinstance(inputs, Path) and inputs.is_file()
        items = [inputs] if is_text else as_list(inputs)
        total = len(items) if isinstance(items, list) else None
        answers = list(self._answering(checked).answers(iter(items), total))
        if is_file:
            raise_if_unreadable(answers[0])
        is_list_of_best = (is_text or is_file) and "top_k" in checked
        return answers[0] if is_list_of_best else answers

    def predict_embedded(self, embedded: Predictions, texts: list[str], **options: Any) -> Prediction:
        """Predict texts that were embedded before, as ``KNNClassifierPipeline.predict_embedded`` does."""
        return self._answering(checked_options(**options)).predict_embedded(embedded, texts)

    def default_options(self) -> CallOptions:
        """The options of a call without options that change answers."""
        return {"max_length": self.embedder.max_length}

    def encoder_sha256(self) -> str:
        """The SHA-256 of everything that embeddings depend on."""
        return sha256_of_json(asdict(self.embedder.config))

    def _answering(self, options: CallOptions) -> Answering:
        """What answers texts with the options of a call."""
        return Answering(
            take_snapshot=lambda: self.datastore.snapshot,
            prepare_experts=lambda _: self._experts,
            embed=self.embedder.with_options(**reading_options(options)).embed,
            vote=self._vote,
            options=options,
        )


class FixedStore:
    """A store that never changes.

    Args:
        snapshot: Its only state.
        content_sha256: The checksum of what it holds.
    """

    def __init__(self, snapshot: Snapshot, content_sha256: str) -> None:
        self.snapshot = snapshot
        self.content_sha256 = content_sha256
        self.label_names = snapshot.label_names
        self.multi_label = snapshot.multi_label
        self.fitted = snapshot.fitted

    def __len__(self) -> int:
        return len(self.snapshot.keys)


def open_exported(folder: str | Path, trust: bool = False, threads: int | None = None) -> ExportedClassifier | None:
    """Open a classifier that was exported, if it can be used here.

    Args:
        folder: The folder of a saved classifier.
        trust: Whether to open a graph that somebody else exported.
        threads: The threads that run its graph. None: one for each core.

    Returns:
        The classifier. None: it was not exported, or the export cannot be used, which is logged, and it can be opened
        as a pipeline.

    Raises:
        FileNotFoundError: If it was not exported, and transformers is not installed.
        ModuleNotFoundError: If ONNX Runtime is not installed, and neither is transformers.
        ValueError: If its graph cannot be used, and transformers is not installed.
    """
    has_pipeline = is_full_installation()
    if has_pipeline and not (Path(folder) / EXPORTED / GRAPH).is_file():
        return None
    try:
        return ExportedClassifier(folder, trust, threads)
    except (ValueError, ModuleNotFoundError) as error:
        if not has_pipeline:
            raise
        logger.warning("The exported model is not used: %s", error)
        return None
