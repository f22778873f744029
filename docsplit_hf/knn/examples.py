"""KeepsExamples: the part of the pipeline that adds, removes and calibrates on labelled examples."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..models.batched_inference import predict
from ..models.modeling_knn_classifier import MULTI_LABEL
from .inputs import texts_and_pairs

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..models.modeling_knn_classifier import KNNClassifier
    from .calibration import Calibration
    from .datastore import KNNDatastore

logger = logging.getLogger(__name__)

GROWTH_TO_RECALIBRATE = 1.1


class KeepsExamples:
    """Labelled examples of a classifier, in a datastore that may still be missing.

    A class that inherits from it has ``model``, ``tokenizer`` and ``datastore``.
    """

    model: KNNClassifier
    tokenizer: PreTrainedTokenizerBase
    datastore: KNNDatastore | None

    def add_examples(
        self,
        texts: Sequence[str | dict[str, str]],
        labels: Sequence[Any],
        ids: Sequence[str] | None = None,
        allow_new_labels: bool = False,
    ) -> list[str]:
        """Add labelled examples, which the next call sees.

        On an encoder without a classification head, k and temperature are chosen anew, by leaving each example out in
        turn, whenever the examples have grown by a tenth.

        Args:
            texts: Texts, or pairs of texts as dictionaries with ``text`` and ``text_pair``.
            labels: The name of the label of each; a list of names where a text may have several.
            ids: A name for each, to remove it by. None: they are numbered.
            allow_new_labels: Whether labels may be new to a classifier, or to a datastore that is not empty. The
                classifier itself gives them no probability; only the neighbors do.

        Returns:
            The ids.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If a text is empty, the numbers differ, an id is taken, or a label is new.
        """
        inputs = list(texts) if not isinstance(texts, str) else texts
        texts, pairs = texts_and_pairs(inputs)
        for i, text in enumerate(texts):
            if not text.strip():
                raise ValueError(f"Text {i} is empty: nothing can be near it. Leave it out.")
        if len(labels) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(labels)} labels: give one label for each text.")
        if self.datastore is None:
            self.datastore = self._new_datastore(labels)
        if not allow_new_labels:
            self._refuse_new_labels(labels)
        keys = predict(self.model, self.tokenizer, texts, pairs).retrieval_embeddings
        added = self.datastore.add(keys, labels, texts=texts, text_pairs=pairs, ids=ids)
        self._recalibrate_if_grown()
        return added

    def remove_examples(self, ids: Sequence[str]) -> None:
        """Remove examples, which the next call does not see any more.

        Args:
            ids: As ``add_examples`` returned them, or as ``neighbors`` show them.

        Raises:
            ValueError: If there is no example of that id.
        """
        self._datastore().remove(ids)

    def calibrate(
        self, texts: Sequence[str | dict[str, str]] | None = None, labels: Sequence[Any] | None = None
    ) -> Calibration:
        """Choose k, temperature and weight by log likelihood, and write them into the model's configuration.

        Args:
            texts: Held-out texts, neither among the examples nor in the test set. None: each example is left out in
                turn, which says nothing about the weight of a classifier that was trained on them: it is left as it is.
            labels: The names of their labels.

        Returns:
            The calibration.

        Raises:
            ValueError: If there are too few examples.
        """
        from .mixture import calibrate_leaving_one_out, calibrate_on_held_out, store_calibration

        datastore = self._datastore()
        if texts is None:
            calibration, source = calibrate_leaving_one_out(datastore), "the examples, each left out in turn"
            if self.model.config.num_labels:
                calibration = calibration._replace(weight=self.model.config.knn_weight)
        else:
            predictions = predict(self.model, self.tokenizer, *texts_and_pairs(list(texts)))
            numbers = datastore.label_array(labels)
            calibration, source = calibrate_on_held_out(predictions, numbers, datastore), "held-out examples"
        store_calibration(self.model.config, calibration, source, len(datastore))
        return calibration

    def _find_datastore(self, given: KNNDatastore | str | Path | None, is_classifier: bool) -> KNNDatastore | None:
        from .building import encoder_probe
        from .datastore import KNNDatastore

        own = self.model.config.name_or_path if is_classifier else ""
        if isinstance(given, KNNDatastore):
            datastore = given
        elif given is not None:
            datastore = KNNDatastore.from_pretrained(given)
        elif own:
            revision = getattr(self.model.config, "_commit_hash", None)
            try:
                datastore = KNNDatastore.from_pretrained(own, revision=revision)
            except FileNotFoundError:
                logger.warning("There is no datastore in %s: add examples, or give one as datastore.", own)
                return None
        else:
            return None
        datastore.check_encoder(encoder_probe(self.model, self.tokenizer))
        trained = tuple(self.model.config.id2label[i] for i in range(self.model.config.num_labels))
        if datastore.label_names[: len(trained)] != trained:
            raise ValueError(
                f"The classifier's labels are {trained}, and the datastore's begin with "
                f"{datastore.label_names[: len(trained)]}: build the datastore with this classifier."
            )
        return datastore

    def _datastore(self) -> KNNDatastore:
        if self.datastore is None:
            where = self.model.config.name_or_path
            raise ValueError(
                f"There are no examples to be near to{f' in {where}' if where else ''}: call add_examples(texts, "
                "labels), or give a datastore to the pipeline. For the classifier alone there is "
                "pipeline('text-classification')."
            )
        return self.datastore

    def _new_datastore(self, labels: Sequence[Any]) -> KNNDatastore:
        from .building import encoder_probe
        from .datastore import KNNDatastore

        config = self.model.config
        trained = [config.id2label[i] for i in range(config.num_labels)]
        several = len(labels) > 0 and not isinstance(labels[0], (str, int, np.integer))
        return KNNDatastore.empty(
            config.retrieval_size,
            trained,
            multi_label=config.problem_type == MULTI_LABEL if trained else several,
            probe=encoder_probe(self.model, self.tokenizer),
        )

    def _refuse_new_labels(self, labels: Sequence[Any]) -> None:
        known = self.datastore.label_names
        if len(self.datastore) == 0 and not self.model.config.num_labels:
            return
        for given in labels:
            for label in given if isinstance(given, (list, tuple, set)) else [given]:
                if isinstance(label, str) and label not in known:
                    near = get_close_matches(label, known, n=1)
                    raise ValueError(
                        f"The label {label!r} is none of {', '.join(known)}."
                        f"{f' Did you mean {near[0]!r}?' if near else ''} If it is to be a new one, pass "
                        "allow_new_labels=True."
                    )

    def _recalibrate_if_grown(self) -> None:
        config = self.model.config
        last = config.knn_calibration or {}
        if config.num_labels or last.get("source") == "held-out examples" or len(self.datastore) < 2:
            return
        if len(self.datastore) >= GROWTH_TO_RECALIBRATE * last.get("datastore_rows", 0):
            self.calibrate()
