"""AnsweringPipeline: how a stream of texts gets its answers, in the frame that transformers gives a pipeline."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm
from transformers import PreTrainedModel, TextClassificationPipeline

from ..models.inference.backend import BFloat16
from ..models.inference.reader import Predictions, Reader
from ..models.portable.configuration_knn_classifier import KNNClassifierConfig
from .classification_output import Shown, classification_output
from .encoder_as_classifier import as_our_own, encoder_as_classifier
from .experts.fitted_experts import ReadyExperts, ready_experts
from .experts.kept_corpus import KeptCorpus
from .experts.mixture_of_experts import mix_experts
from .find_datastore import find_datastore
from .mixing.mixture import Mixture, mix_with_neighbors, with_documents
from .read_as import read_as
from .recalibrate import recalibrate_if_grown
from .rejection.answer_level import check_error
from .store.row_table import joined_texts
from .texts_and_labels import texts_and_pairs

if TYPE_CHECKING:
    from .store.store import Store

logger = logging.getLogger(__name__)

FIRST_WINDOW, WINDOW = 8, 1024  # texts that are sorted by length and looked up together: at first, and at most
WINDOW_WITH_PROGRESS = 256  # so that the bar moves
WINDOW_CHARACTERS = 2**24  # of all texts in it


class AnsweringPipeline(TextClassificationPipeline):
    """What of ``KNNClassifierPipeline`` turns texts into answers: its arguments and calls are described there."""

    _load_tokenizer = None  # transformers tries, and goes on where there is none: an endpoint has none

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Any = None,
        datastore: Store | str | Path | None = None,
        datastore_token: str | bool | None = None,
        packing: str = "auto",
        long_documents: str | None = None,
        passage_length: int | None = None,
        truncate_dim: int | None = None,
        backend: str | None = None,
        precision: str | None = None,
        calibration_texts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        as_our_own(model)
        tokenizer = Reader.of(model, tokenizer).tokenizer
        is_classifier = isinstance(model.config, KNNClassifierConfig)
        kwargs["task"] = "text-classification"  # the name that other libraries know
        super().__init__(model=model if is_classifier else encoder_as_classifier(model), tokenizer=tokenizer, **kwargs)
        self.reader.run_by(packing, backend, precision, calibration_texts)
        self.datastore = find_datastore(self.reader, datastore, is_classifier, datastore_token)
        given = {"long_documents": long_documents, "passage_length": passage_length, "truncate_dim": truncate_dim}
        read_as(self.reader, self.datastore, is_classifier, **given)
        self._experts: ReadyExperts | None = None
        self._corpus = KeptCorpus()
        if self.datastore is not None:
            recalibrate_if_grown(self.model.config, self.datastore)

    @property
    def reader(self) -> Reader:
        """What embeds: the model with its tokenizer, as they are now."""
        return Reader.of(self.model, self.tokenizer)

    def get_iterator(
        self,
        inputs: Any,
        num_workers: int,
        batch_size: int,
        preprocess_params: dict[str, Any],
        forward_params: dict[str, Any],
        postprocess_params: dict[str, Any],
    ) -> Iterator[Any]:
        """Classify: of a list 1,024 texts at a time; of a generator a batch or 8, then twice as many each time."""
        has_items = hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__")
        stream = (inputs[i] for i in range(len(inputs))) if has_items else iter(inputs)
        batch_size = None if batch_size == 1 else batch_size  # 1 is the default of Pipeline: no limit
        first = WINDOW if has_items else min(batch_size or FIRST_WINDOW, WINDOW)
        parameters = ({**preprocess_params, "batch_size": batch_size}, forward_params, postprocess_params)
        return self._classify_stream(stream, first, len(inputs) if has_items else None, *parameters)

    def run_single(
        self,
        inputs: Any,
        preprocess_params: dict[str, Any],
        forward_params: dict[str, Any],
        postprocess_params: dict[str, Any],
    ) -> Any:
        """Classify one text or pair."""
        return next(self._classify_stream(iter([inputs]), 1, 1, preprocess_params, forward_params, postprocess_params))

    def preprocess(self, inputs: list[Any], first: int = 0) -> tuple[list[str], list[str | None]]:
        """The texts, and the second text of each or None. ``first`` is the number of the first text in the stream."""
        return texts_and_pairs(inputs, first)

    def postprocess(
        self,
        mixture: Mixture,
        top_k: int | None = 1,
        return_neighbors: int = 0,
        return_documents: int = 0,
        explain: bool = False,
        return_novelty: bool = False,
        return_read: bool = False,
        reject_label: str | None = None,
        _legacy: bool = True,
    ) -> list[Any]:
        """One output per text; ``_legacy`` gives the best label alone, as ``TextClassificationPipeline`` has it."""
        shown = Shown(return_neighbors, return_documents, explain, return_novelty, return_read)
        rows = range(len(mixture.mixture))
        return [classification_output(mixture, row, top_k, shown, _legacy, reject_label) for row in rows]

    def check_model_type(self, supported_models: Any) -> None:
        """Nothing to check: an encoder that is no ``KNNClassifier`` has become one."""

    def _sanitize_parameters(
        self,
        top_k: Any = "",
        return_neighbors: int | None = None,
        return_documents: int | None = None,
        explain: bool | None = None,
        return_novelty: bool | None = None,
        return_read: bool | None = None,
        reject: float | None = None,
        reject_label: str | None = None,
        k: int | None = None,
        knn_temperature: float | None = None,
        knn_weight: float | None = None,
        max_length: int | None = None,
        max_tokens_per_batch: int | None = None,
        bf16: BFloat16 = None,
        show_progress: bool | None = None,
        truncation: bool | str = True,
        padding: bool | str = True,
        **unknown: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if unknown:
            raise TypeError(f"pipeline('docsplit-knn') has no argument {next(iter(unknown))!r}.")
        if truncation not in (True, "longest_first"):
            raise ValueError(f"truncation={truncation!r}: texts that are too long are always cut, and counted.")
        preprocess = {"max_length": max_length, "max_tokens_per_batch": max_tokens_per_batch}
        shown = {"return_neighbors": return_neighbors, "return_documents": return_documents}
        for name, value in {**preprocess, "k": k, "top_k": None if top_k == "" else top_k, **shown}.items():
            least = 0 if name in shown else 1
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
                raise ValueError(f"{name} must be a whole number from {least}, got {value!r}.")
        if knn_temperature is not None and not knn_temperature > 0:
            raise ValueError(f"knn_temperature must be above 0, got {knn_temperature}.")
        if knn_weight is not None and not 0 <= knn_weight <= 1:
            raise ValueError(f"knn_weight must be from 0 (classifier alone) to 1 (neighbors alone), got {knn_weight}.")
        asked = {"explain": explain, "return_novelty": return_novelty, "return_read": return_read}
        for name, value in {"show_progress": show_progress, **asked}.items():
            if value not in (None, True, False):
                raise ValueError(f"{name} must be True or False, got {value!r}.")
        if reject is not None:
            check_error(reject)
        if reject_label is not None and not isinstance(reject_label, str):
            raise TypeError(f"reject_label must be a name, got {reject_label!r}.")
        preprocess |= {"bf16": bf16, "show_progress": show_progress}
        forward = {"k": k, "temperature": knn_temperature, "weight": knn_weight, "reject": reject}
        shown |= {**asked, "reject_label": reject_label}
        labels = {} if top_k == "" else {"top_k": top_k, "_legacy": False}
        return _given(preprocess), _given(forward), _given(shown) | labels

    def _forward(
        self,
        predictions: Predictions,
        texts: list[str],
        shown: Shown,
        reject: float | None = None,
        **overrides: Any,
    ) -> Mixture:
        config, datastore = self.model.config, self._datastore()
        ready = self._ready_experts(datastore)
        chosen = {"k": config.k, "temperature": config.knn_temperature, "weight": config.knn_weight} | overrides
        if ready is not None and not overrides:
            mixture = mix_experts(ready, predictions, texts, shown, reject)
        elif shown.explanation or shown.novelty or reject is not None:
            raise ValueError(
                "Only fitted experts can explain, tell what is novel, and reject: call fit(), and leave out k, "
                "knn_temperature and knn_weight. A trained classifier is fitted on held-out texts: fit(texts, labels)."
            )
        elif config.num_labels == 0 and overrides.get("weight", 1) != 1:
            raise ValueError(f"knn_weight={overrides['weight']}: there is no classification head to mix with.")
        else:
            mixture = mix_with_neighbors(predictions, datastore, **chosen, shown=shown.neighbors)
        mixture = mixture._replace(shares=predictions.shares, texts=texts, passages=predictions.passages)
        return with_documents(mixture, datastore, predictions, shown.documents)

    def _ready_experts(self, datastore: Store) -> ReadyExperts | None:
        # The rows of a remote datastore are fetched for fitted experts only; threads may set them meanwhile.
        ready = self._experts = None if datastore.fitted is None else ready_experts(datastore.snapshot, self._experts)
        return ready

    def _datastore(self) -> Store:
        if self.datastore is None or not len(self.datastore):
            where, has_head = self.model.config.name_or_path, self.model.config.num_labels > 0
            raise ValueError(
                f"No labeled examples yet{f' in {where}' if where else ''}: call add_examples(texts, "
                "labels), with a few texts of each label, or give a datastore to the pipeline."
                + (" For the classifier alone there is pipeline('text-classification')." if has_head else "")
            )
        return self.datastore

    def _classify_stream(
        self, stream: Iterator[Any], size: int, total: int | None, *parameters: dict[str, Any]
    ) -> Iterator[Any]:
        datastore = self._datastore()  # which says so before anything is computed
        preprocess_params, forward_params, postprocess_params = parameters
        ready = self._ready_experts(datastore)
        _check_answers(ready, datastore.label_names, forward_params, postprocess_params)
        asked = ("return_neighbors", "return_documents", "explain", "return_novelty", "return_read")
        done, shown = 0, Shown(*(postprocess_params.get(name, 0) for name in asked))
        if shown.read and not self.reader.is_here:
            raise ValueError(f"{self.model.endpoint!r} does not say how much it reads: leave out return_read.")
        options = dict(preprocess_params)
        show_progress = options.pop("show_progress", False)
        reader = self.reader.with_options(**options)
        most = WINDOW_WITH_PROGRESS if show_progress else WINDOW
        with tqdm(total=total, desc="Classifying", unit="text", disable=not show_progress) as progress:
            while window := _next_inputs(stream, min(size, most)):
                texts = self.preprocess(window, done)
                with self.device_placement():
                    predictions = reader.read(*texts)
                mixture = self._forward(predictions, joined_texts(*texts), shown, **forward_params)
                yield from self.postprocess(mixture, **postprocess_params)
                progress.update(len(window))
                done, size = done + len(window), min(2 * size, WINDOW)


def _next_inputs(stream: Iterator[Any], most: int) -> list[Any]:
    """The next inputs of a stream: that many at most, and fewer where they are long, so that memory is bounded."""
    inputs, characters = [], 0
    for given in itertools.islice(stream, most):
        inputs.append(given)
        texts = given.values() if isinstance(given, dict) else [given]
        characters += sum(len(text) for text in texts if isinstance(text, str))
        if characters >= WINDOW_CHARACTERS:
            break
    return inputs


def _check_answers(
    ready: ReadyExperts | None, names: Sequence[str], forward: dict[str, Any], post: dict[str, Any]
) -> None:
    """What does not go together, whether it was given to a call or to the pipeline; and what cannot be promised."""
    reject, reject_label = forward.get("reject"), post.get("reject_label")
    if reject_label is not None and reject is None:
        raise ValueError(f"reject_label={reject_label!r} is for texts without an answer: pass reject, too.")
    if reject is None:
        return
    if "top_k" in post:
        raise ValueError(f"reject gives a text one answer or none: leave out top_k={post['top_k']!r}.")
    if reject_label in names:
        raise ValueError(f"reject_label={reject_label!r} is a label of the examples: take another name.")
    if ready is not None and np.isinf(ready.fitted.answer_level(reject)):
        logger.warning("No text gets an answer: reject=%g cannot be guaranteed. %s", reject, ready.fitted.promise())


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
