"""KeepsExamples: the part of the pipeline that adds, removes and calibrates on labeled examples."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.inference.batched_inference import predict
from ..models.portable.modeling_knn_classifier import MULTI_LABEL
from .mixing.mixture import (
    HELD_OUT,
    TooFewExamplesError,
    calibrate_leaving_one_out,
    calibrate_on_held_out,
    store_calibration,
)
from .pipeline_inputs import listed, texts_and_pairs
from .store.duplicates import first_of_equals, ids_of_examples
from .store.labels import has_several_labels

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..models.portable.modeling_knn_classifier import KNNClassifier
    from .mixing.calibration import Calibration
    from .store.datastore import KNNDatastore

logger = logging.getLogger(__name__)

GROWTH_TO_RECALIBRATE = 1.1


class KeepsExamples:
    """Labeled examples of a classifier, in a datastore that may still be missing.

    A class that inherits from it has ``model``, ``tokenizer`` and ``datastore``.
    """

    model: KNNClassifier
    tokenizer: PreTrainedTokenizerBase
    datastore: KNNDatastore | None

    def add_examples(
        self,
        texts: Any,
        labels: Sequence[Any],
        ids: Sequence[str] | None = None,
        allow_new_labels: bool = False,
        allow_duplicates: bool = False,
    ) -> list[str]:
        """Add labeled examples, which the next call sees.

        What is there already, the same text with the same labels, is not added again, which is logged: a cell of a
        notebook may be run twice.

        On an encoder without a classification head, k and temperature are chosen anew, by leaving each example out in
        turn, whenever the examples have grown by a tenth; not after they were chosen on held-out texts.

        Args:
            texts: Texts, or pairs of texts as dictionaries with ``text`` and ``text_pair``; also as an array, a Series,
                a DataFrame or a data set, as in a call.
            labels: The name of the label of each; a list of names where a text may have several.
            ids: A name for each, to remove it by. None: they are numbered.
            allow_new_labels: Whether labels may be new to a classifier, or to a datastore that is not empty. The
                classifier itself gives them no probability; only the neighbors do.
            allow_duplicates: Whether an example is added that is there already, so that it counts twice.

        Returns:
            The ids, one for each text; of a text that was there already, the id that it has there, whatever ``ids``
            says.

        Raises:
            TypeError: If a text is not a string, or a label not a name.
            ValueError: If a text is empty, the numbers differ, an id is taken, or a label is new.
        """
        ids = None if ids is None else list(ids)
        texts, pairs = texts_and_pairs(_all(texts))
        labels = _names(labels)
        for i, text in enumerate(texts):
            if not text.strip():
                raise ValueError(f"Text {i} is empty: nothing can be near it. Leave it out.")
        if len(labels) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(labels)} labels: give one label for each text.")
        datastore = self._new_datastore(labels) if self.datastore is None else self.datastore
        if not allow_new_labels:
            self._refuse_new_labels(labels, datastore)
        if ids is not None and len(ids) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(ids)} ids: give one id for each text.")
        known: list[Any] = (
            [None] * len(texts) if allow_duplicates else ids_of_examples(datastore._state, texts, pairs, labels)
        )
        first = range(len(texts)) if allow_duplicates else first_of_equals(texts, pairs, labels)
        rows = [i for i in range(len(texts)) if first[i] == i and known[i] is None]
        if len(rows) < len(texts):
            logger.warning(
                "%d of %d examples are there already with the same label, and are not added again%s: "
                "allow_duplicates=True adds them.",
                *(len(texts) - len(rows), len(texts), "" if ids is None else ", nor are their ids"),
            )
        if rows:
            new, new_pairs, new_labels = ([given[i] for i in rows] for given in (texts, pairs, labels))
            keys = predict(self.model, self.tokenizer, new, new_pairs).retrieval_embeddings
            new_ids = None if ids is None else [ids[i] for i in rows]
            added = datastore.add(keys, new_labels, texts=new, text_pairs=new_pairs, ids=new_ids)
            for i, added_id in zip(rows, added, strict=True):
                known[i] = added_id
            self.datastore = datastore
            self._recalibrate_if_grown()
        return [known[i] for i in first]

    def remove_examples(self, ids: Sequence[str]) -> None:
        """Remove examples, which the next call does not see any more.

        Args:
            ids: As ``add_examples`` returned them, or as ``neighbors`` show them.

        Raises:
            ValueError: If there is no example of that id.
        """
        self._datastore().remove(ids)

    def calibrate(self, texts: Any = None, labels: Sequence[Any] | None = None) -> Calibration:
        """Choose k, temperature and weight by log likelihood, and write them into the model's configuration.

        Args:
            texts: Held-out texts, which are not in the test set; those that are among the examples are left out. None:
                each example is left out in turn, with all copies of it, which says nothing about the weight of a
                classifier that was trained on them: it is left as it is.
            labels: The names of their labels.

        Returns:
            The calibration.

        Raises:
            TypeError: If a label is not a name.
            ValueError: If there are too few examples, or all held-out texts are among them.
        """
        datastore = self._datastore()
        if texts is None:
            calibration, source = calibrate_leaving_one_out(datastore), "the examples, each left out in turn"
            if self.model.config.num_labels:
                calibration = calibration._replace(weight=self.model.config.knn_weight)
        else:
            texts, pairs = texts_and_pairs(_all(texts))
            predictions = predict(self.model, self.tokenizer, texts, pairs)
            numbers = datastore.label_array(_names(labels))
            calibration, source = calibrate_on_held_out(predictions, numbers, datastore, texts, pairs), HELD_OUT
        store_calibration(self.model.config, calibration, source, len(datastore))
        return calibration

    def _find_datastore(
        self, given: KNNDatastore | str | Path | None, is_classifier: bool, token: str | bool | None
    ) -> KNNDatastore | None:
        from huggingface_hub.errors import LocalEntryNotFoundError

        from .store.classifier_files import check_classifier
        from .store.datastore import KNNDatastore
        from .store.embedding import check_problem_type, encoder_probe

        own = self.model.config.name_or_path if is_classifier else ""
        if isinstance(given, KNNDatastore):
            datastore = given
        elif given is not None:
            datastore = KNNDatastore.from_pretrained(given, token=token)
        elif own:
            revision = getattr(self.model.config, "_commit_hash", None)
            try:
                datastore = KNNDatastore.from_pretrained(own, revision=revision, token=token)
                check_classifier(own, revision, token)
            except LocalEntryNotFoundError:
                raise  # the Hub could not be asked
            except FileNotFoundError:
                logger.warning("There is no datastore in %s: add examples, or give one as datastore.", own)
                return None
        else:
            return None
        datastore.check_encoder(encoder_probe(self.model, self.tokenizer))
        trained = tuple(self.model.config.label_names)
        check_problem_type(self.model.config, datastore.multi_label, "The datastore's examples")
        if datastore.label_names[: len(trained)] != trained:
            raise ValueError(
                f"The classifier's labels are {trained}, and the datastore's begin with "
                f"{datastore.label_names[: len(trained)]}: build the datastore with this classifier."
            )
        return datastore

    def _datastore(self) -> KNNDatastore:
        if self.datastore is None:
            where, has_head = self.model.config.name_or_path, self.model.config.num_labels > 0
            raise ValueError(
                f"There are no examples to be near to{f' in {where}' if where else ''}: call add_examples(texts, "
                "labels), with a few texts of each label, or give a datastore to the pipeline."
                + (" For the classifier alone there is pipeline('text-classification')." if has_head else "")
            )
        return self.datastore

    def _new_datastore(self, labels: Sequence[Any]) -> KNNDatastore:
        from .store.datastore import KNNDatastore
        from .store.embedding import encoder_probe

        config = self.model.config
        return KNNDatastore.empty(
            config.retrieval_size,
            config.label_names,
            multi_label=config.problem_type == MULTI_LABEL if config.num_labels else has_several_labels(labels),
            probe=encoder_probe(self.model, self.tokenizer),
        )

    def _refuse_new_labels(self, labels: list[Any], datastore: KNNDatastore) -> None:
        known = datastore.label_names
        if len(datastore) == 0 and not self.model.config.num_labels:
            return
        for given in labels:
            for label in [given] if isinstance(given, str) else given:
                if label not in known:
                    near = get_close_matches(label, known, n=1)
                    raise ValueError(
                        f"The label {label!r} is none of {', '.join(known)}."
                        f"{f' Did you mean {near[0]!r}?' if near else ''} If it is to be a new one, pass "
                        "allow_new_labels=True."
                    )

    def _recalibrate_if_grown(self) -> None:
        config = self.model.config
        last = config.knn_calibration or {}
        if config.num_labels or last.get("source") == HELD_OUT:
            return
        if len(self.datastore) >= GROWTH_TO_RECALIBRATE * last.get("datastore_rows", 0):
            with contextlib.suppress(TooFewExamplesError):
                self.calibrate()


def _all(texts: Any) -> Any:
    texts = listed(texts)
    return texts if isinstance(texts, str) else list(texts)


def _names(labels: Sequence[Any]) -> list[Any]:
    """Names of labels, or lists of them. Numbers are refused: whose numbering is it?"""
    labels = [list(given) if has_several_labels([given]) else given for given in labels]
    for row, given in enumerate(labels):
        for label in given if isinstance(given, list) else [given]:
            if not isinstance(label, str):
                raise TypeError(
                    f"The label of text {row} is {label!r}, not a name. Of a ClassLabel column: "
                    "[dataset.features['label'].int2str(label) for label in dataset['label']]."
                )
    return labels
