"""KNNClassifierPipeline: ``pipeline("docsplit-knn")``, text classification by a classifier and labeled examples."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from transformers import PreTrainedModel, TextClassificationPipeline

from ..arrays.passages import Predictions
from ..arrays.row_table import DESCRIPTION_ID_PREFIX
from ..arrays.snapshot import Snapshot
from ..encoding.backends.precision import precision_settings
from ..encoding.checkpoints.fingerprint import encoder_fingerprint
from ..encoding.chunking import PASSAGES
from ..encoding.classifier_embedder import make_embedder
from ..encoding.text_embedder import TextEmbedder
from ..fitting.ensemble.scoring import PreparedExperts, prepare_experts
from ..fitting.experts.corpus import KeptCorpus
from ..fitting.prediction import Prediction, raise_if_unreadable
from ..reading.inputs import as_list, labels_of_folders
from ..reading.text_warnings import sum_up_warnings
from ..storage.classifier_folder import CARD, push_saved, saved_together
from .answering import (
    READING_OPTIONS,
    Answering,
    CallOptions,
    NeighborVote,
    ReadingOptions,
    checked_options,
    reading_options,
)
from .knn_datastore import KNNDatastore
from .open_classifier import (
    open_datastore,
    open_parts,
    recalibrate_if_grown,
    set_reading_strategy,
    warn_of_different_strategy,
)

if TYPE_CHECKING:
    from ..fitting.audit.report import Audit, Labels
    from ..fitting.drift.report import DriftReport
    from ..fitting.ensemble.report import FitReport
    from ..fitting.experts.log_linear_pool import ClassProportions
    from ..fitting.label_tree import Hierarchy
    from .active_learning import Suggestion
    from .calibration import Calibration

logger = logging.getLogger(__name__)

FIRST_WINDOW_TEXTS = 8  # texts of a stream that are sorted by length and read together at first


class KNNClassifierPipeline(TextClassificationPipeline):
    """Classify texts, or pairs of texts, with a classifier and the nearest labeled examples.

    Import docsplit_hf, and make it by ``pipeline("docsplit-knn", model=...)``. The model is a ``KNNClassifier`` with
    its datastore in the same folder or repository; or any encoder, which ``add_examples`` turns into a classifier
    without training. ``pipeline("docsplit-knn")`` uses the encoder that ships with docsplit_hf. Inputs and outputs are
    those of ``pipeline("text-classification")``.

    Args:
        model: A ``KNNClassifier``, an encoder without a head, or an ``EndpointClassifier``.
        tokenizer: Its tokenizer; None for an ``EndpointClassifier``.
        datastore: The labeled examples, or their folder or repository. None: the datastore in the model's folder or
            repository, if any. For a token of its own, pass the opened datastore.
        long_documents: The part of long texts to read: ``"whole"``, all of them; ``"first"``, their beginning;
            ``"head_tail"``, ``"average"`` or ``"passages"``, as for ``DocumentEncoder``. It is saved with the model.
            None: the saved strategy; without one, ``"whole"``, or ``"first"`` if ``datastore`` is given (this is
            logged). Pairs of texts need ``"first"`` or ``"whole"``; only their beginnings are read.
        passage_length: The longest passage in tokens, including special tokens. None: as many as the model reads.
        truncate_dim: The number of leading dimensions of the embeddings to compare and keep, for encoders that were
            trained for it (Matryoshka). None: as saved, by default all.
        prompt: The text that is put before each text, ``""`` for none. None: as saved, and for an encoder as for
            ``DocumentEncoder.from_pretrained``.
        precision: As for ``DocumentEncoder.from_pretrained``. None: the model's current one. A datastore
            built at a different precision is rejected if that changes its neighbors.
        **kwargs: Arguments of ``Pipeline``, and default arguments of calls.

    Raises:
        ValueError: If the datastore was built by another encoder, or its long texts were read in another way.

    Example:

        >>> from transformers import BertModel
        >>> from docsplit_hf.encoding.small_bert import small_bert_config, train_small_bert_tokenizer
        >>> tokenizer = train_small_bert_tokenizer(["apples and pears", "iron and stone"], vocab_size=60)
        >>> encoder = BertModel(small_bert_config(tokenizer))  # better: a pretrained one
        >>> pipe = KNNClassifierPipeline(model=encoder, tokenizer=tokenizer, device="cpu")
        >>> pipe.add_examples(["apples and pears", "iron and stone"], ["fruit", "mineral"])
        ['0', '1']
        >>> answer = pipe({"text": "apples and pears"}, k=1, return_neighbors=1)
        >>> answer["label"], answer["neighbors"][0]["id"]
        ('fruit', '0')
    """

    _load_tokenizer = None  # transformers tries to load one, and continues without: an endpoint has none

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Any = None,
        datastore: KNNDatastore | str | Path | None = None,
        long_documents: str | None = None,
        passage_length: int | None = None,
        truncate_dim: int | None = None,
        prompt: str | None = None,
        precision: str | None = None,
        **kwargs: Any,
    ) -> None:
        parts = open_parts(model, tokenizer, truncate_dim, prompt, datastore is None)
        kwargs["task"] = "text-classification"  # the name in other libraries
        super().__init__(model=parts.model, tokenizer=parts.tokenizer, **kwargs)
        self.embedder.use_precision(precision, packing="auto")
        self.datastore = open_datastore(self.embedder, datastore, parts.datastore)
        is_strategy_known = parts.was_classifier or long_documents is not None
        if not is_strategy_known and self.datastore is None:
            # Safe only without a datastore: the texts of an existing one may have been read with another strategy.
            long_documents = "whole"
        set_reading_strategy(
            self.embedder,
            self.datastore if datastore is None else None,
            long_documents=long_documents,
            passage_length=passage_length,
            truncate_dim=truncate_dim,
            prompt=prompt,
        )
        if datastore is not None:
            warn_of_different_strategy(self.embedder, self.datastore, is_strategy_known)
        self._experts: PreparedExperts | None = None
        self._corpus = KeptCorpus()
        if self.datastore is not None:
            recalibrate_if_grown(self.model.config, self.datastore)

    @property
    def embedder(self) -> TextEmbedder:
        """TextEmbedder of the current model and tokenizer."""
        return make_embedder(self.model, self.tokenizer)

    @sum_up_warnings()  # for a generator, warnings about truncated texts are logged as it is consumed
    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Classify texts.

        Args:
            inputs: A text; a pair of texts as a dictionary with ``text`` and ``text_pair``; the ``Path`` of a file
                (PDF, Word, HTML, mail, ...); a list, array, Series, generator or data set of these; a DataFrame or
                ``datasets.Dataset`` with the column ``text`` and optionally ``text_pair``; or the ``Path`` of a folder,
                for all files in it.
            **kwargs: Options:

                - ``top_k``: the number of labels for each text; None for all.
                - ``return_neighbors``, ``return_documents``: the number of nearest examples, and of nearest documents
                  without labels, to return.
                - ``explain``: whether to explain each answer, after ``fit``.
                - ``reject``: the error rate to allow, such as 0.05: texts whose answer is too uncertain for it, or that
                  resemble no example, get the label None. If labels are a tree, ``label`` is the deepest node above
                  the most probable label for which the rate holds, such as ``"law > contracts"``. Or
                  ``RejectionLimits``, which limit more.
                - ``labels_at``: the probability, such as 0.95, that the set ``labels`` of an answer holds the right
                  label; all right ones, if a text may have several. The sets are as small as this allows.
                - ``return_novelty``: whether to return how much a text differs from the examples.
                - ``return_read``: whether to return the fraction of a text that was read.
                - ``method``: ``"experts"``, those that ``fit`` fitted; or ``"knn"``, which mixes head and neighbors
                  (equation 3 of Liang et al. 2023). Default: the experts, after ``fit``.
                - ``k``: with ``"knn"``, the number of neighbors that vote, instead of the calibrated one.
                - ``batch_size``: the maximum number of texts per batch.
                - ``bf16``: whether to compute in bfloat16, faster on hardware that supports it, and slightly less
                  exact; ``"auto"``: if supported.
                - ``max_length``: the longest input in tokens.
                - ``max_passages``: the maximum number of passages to read of a long text, if texts are read in
                  passages; the part left out is logged.
                - ``show_progress``: whether to show a progress bar.

        Returns:
            For each text its best label, a dictionary with ``label`` and ``score``; with ``top_k`` a list of the best
            labels. For a single text without ``top_k`` a list of one, as in ``pipeline("text-classification")``.
            Options add:

            - ``neighbors``: the nearest examples, nearest first, each with its ``label`` (``labels``, if it may have
              several), ``text``, ``text_pair`` if any, ``id``, ``distance`` (squared L2) and ``weight``, its share of
              the vote (equation 2). After ``fit`` documents vote too: their ``label`` is the most probable one that
              ``fit`` propagated to them, with ``label_probability``. With ``top_k``, each label has only the neighbors
              with that label.
            - ``explanation``: ``experts``, each expert's contribution to the log odds of the label versus the runner-up
              (named in ``against``), and the same in plain words, ``summary``; ``words`` that contribute most, and
              ``words_against``, with negative weights; and ``style``, if how the text is written speaks for the label,
              or ``style_against``. For a label added after ``fit`` a ``note`` instead.
            - ``novelty``: the fraction of held-out examples with a higher familiarity than the text: near 1 for a text
              of no known class. ``read``: the fraction of the text that was read. ``documents``: the nearest documents.
            - ``labels``, if texts may have several and experts were fitted: labels whose probability exceeds their
              threshold; thresholds are chosen on folds of the examples.
            - ``path``, if labels are a tree (``hierarchy`` of ``fit``): the nodes from the top to the label, and the
              most probable label, each with ``label`` and ``score``, the sum of the probabilities of its labels.
            - ``labels``, with ``labels_at``: the set of labels, each with ``label`` and ``score``, most probable first.
              It always has the most probable label. ``labels_per_class``: whether the probability holds for the texts
              of each label (each has enough held-out examples), not only for all texts together.

            For a file: ``file``, its path (relative to the folder, if a folder was given), and ``page`` (``pages``, if
            it crosses their border), the page with the passage that speaks most for the label; ``sheet``, ``slide`` or
            ``part`` in other formats. A file that cannot be read has no label and no score, and a ``reason`` and a
            ``remedy``; a single one raises instead.

            If texts are read in passages, an explanation has the ``passage`` with the highest probability of the label,
            with ``start``, ``end`` and ``text``; each neighbor has ``passage``, its best-matching passage, and
            ``text_passage``, the passage of the input that it matched. With ``reject``, ``label`` may be None, with the
            ``reason`` ``"no content"`` for a text without letters and digits, or without words that tell labels apart.
            With probability 0.9 over the choice of examples, the error rate is at most ``reject`` on texts of the same
            distribution; in a tree, among the texts answered at each level, and at all levels together.

        Raises:
            TypeError: If an input is neither a text, such a dictionary, nor a path.
            UnreadableFile: A ``ValueError``, if the input is a single file that cannot be read.
            ValueError: If an argument is out of its range, or no examples have been added.
        """
        is_file = isinstance(inputs, Path) and inputs.is_file()
        inputs = as_list(inputs)
        if isinstance(inputs, list) and not inputs:
            return []
        answers = super().__call__(inputs, **kwargs)
        if is_file:
            raise_if_unreadable(answers[0])
        # As for a text: a list of the best labels, or a list of one.
        return answers[0] if is_file and "top_k" in kwargs else answers

    def predict_embedded(self, embedded: Predictions, texts: list[str], **options: Any) -> Prediction:
        """Predict texts that were embedded before, for programs that embed the texts of several calls together.

        Args:
            embedded: The result of ``embedder.embed`` for N texts.
            texts: The N texts; pairs are joined, as ``joined_texts`` does.
            **options: Options of a call that change answers, such as ``top_k`` and ``reject``.

        Returns:
            The probabilities of all labels, from which ``answer(row)`` makes the answer that a call returns.

        Raises:
            TypeError: If an option is unknown.
            ValueError: If an option is out of its range or does not fit what was fitted, or no examples were added.
        """
        return self._answering(checked_options(**options)).predict_embedded(embedded, texts)

    def default_options(self) -> CallOptions:
        """The options of a call without options that change answers."""
        # Private in transformers 5.23: Pipeline has no public access to the defaults that it was made with.
        options = {"batch_size": self._batch_size} | self._forward_params
        options["max_length"] = options.get("max_length") or self.embedder.max_length
        return options

    def encoder_sha256(self) -> str:
        """The SHA-256 of everything that embeddings depend on: model, tokenizer and precision."""
        precision = precision_settings(self.model.encoder) if self.embedder.is_local else {}
        return encoder_fingerprint(self.model, self.tokenizer, **precision)

    def add_examples(
        self,
        texts: Any,
        labels: Sequence[Any] | None = None,
        ids: Sequence[str] | None = None,
        allow_new_labels: bool = False,
        allow_duplicates: bool = False,
    ) -> list[str]:
        """Add labeled examples, which the next call uses.

        Existing examples, with the same text and labels, are not added again, which is logged. Without a classification
        head, k and temperature are calibrated again by leaving out each example in turn, whenever the number of
        examples has grown by a tenth, unless they were calibrated on held-out texts.

        Args:
            texts: Texts, pairs of texts, or paths of files, in any form that a call takes.
            labels: The name of the label of each text; a list of names if a text may have several labels. None: for the
                ``Path`` of a folder, the name of the first sub-folder of each file.
            ids: An id for each text, to remove it by. None: they are numbered.
            allow_new_labels: Whether to accept labels that a trained head does not have; only neighbors can predict
                these.
            allow_duplicates: Whether to add existing examples again, so that they count twice.

        Returns:
            The ids, one for each text. An existing example keeps its id, even if ``ids`` has another one. None for a
            file that cannot be read, which is logged.

        Raises:
            TypeError: If a text is not a string, or a label not a name.
            ValueError: If a text is empty, the numbers differ, an id is taken, or a trained head does not have a label.
        """
        folder = texts
        texts = as_list(texts)
        if labels is None:
            if not (isinstance(folder, Path) and folder.is_dir()):
                raise TypeError(
                    "labels are missing: give one for each text, or a Path of a folder with a sub-folder each."
                )
            labels = labels_of_folders(texts, folder)
        return self._add_examples(
            texts, labels, ids, allow_new_labels=allow_new_labels, allow_duplicates=allow_duplicates
        )

    def add_labels(self, descriptions: Mapping[str, str]) -> list[str]:
        """Add labels by description, so that the pipeline answers before any text is labeled.

        A description is an example like others.

        Args:
            descriptions: For each label a few words, or a sentence, about its texts. A new description replaces the
                old one.

        Returns:
            The ids of the descriptions among the examples.

        Raises:
            ValueError: If a name or a description is empty, or a label is new to a classifier that was trained.
        """
        from .editing import check_descriptions

        check_descriptions(descriptions)
        labels: list[Any] = list(descriptions)
        if self.datastore is not None and self.datastore.multi_label:
            labels = [[label] for label in labels]
        ids = [f"{DESCRIPTION_ID_PREFIX}{name}" for name in descriptions]
        return self._add_examples(list(descriptions.values()), labels, ids, allow_duplicates=True, replace_ids=True)

    def add_documents(
        self, texts: Any, ids: Sequence[str] | None = None, show_progress: bool = False, **options: Any
    ) -> list[str | None]:
        """Add documents without labels, for ``fit`` to learn from.

        A document that ``add_examples`` labels later becomes an example, and is not embedded again.

        Args:
            texts: Texts, pairs of texts, or paths of files, in any form that a call takes; or the ``Path`` of a folder.
            ids: An id for each text, for ``remove_documents``. None: they are numbered, "d0", "d1", ...
            show_progress: Whether to show a progress bar.
            **options: ``bf16``, ``batch_size``, ``max_length``, ``max_passages`` as for a call.

        Returns:
            The ids; None for empty or already stored texts, and for files that cannot be read: these are skipped, and
            this is logged.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If an id is taken.
        """
        from .editing import add_documents, datastore_for_adding

        embedder = self._embedder_with(options).with_options(show_progress=show_progress)
        datastore = datastore_for_adding(embedder, self.datastore)
        added = add_documents(embedder, datastore, texts, ids)
        self.datastore = datastore  # only now: a failed addition leaves no trace
        return added

    def fit(
        self,
        texts: None = None,
        labels: None = None,
        *,
        held_out_texts: Any = None,
        held_out_labels: Sequence[Any] | None = None,
        experts: Sequence[str] | None = None,
        show_progress: bool = True,
        class_proportions: ClassProportions = "estimated",
        teacher: Mapping[str, str | Mapping[str, float]] | Literal[False] | None = None,
        hierarchy: Hierarchy | None = None,
    ) -> FitReport:
        """Fit the experts on all examples and documents, and choose their weights.

        Experts are the members of the ensemble that answers from now on. ``classifier``: the head, or a linear probe
        without one. ``neighbors``: nearest examples and documents. ``naive_bayes``: naive Bayes on the words of all
        texts. ``topics``: similarity to the centroid of each label's texts. ``word_regression``: logistic regression on
        the words of the examples. ``label_names``: similarity to the names of the labels. ``style``: a linear probe of
        lengths, punctuation, capitals and layout, if a text has one label. Labels of examples are propagated to
        documents, for neighbors, naive Bayes and topics. The weights are chosen by folds of the examples, and stored
        with them. No text is embedded again.

        Args:
            texts, labels: Refused, as texts to learn from are given by ``add_examples``.
            held_out_texts: Texts to choose the weights on, instead of folds of the examples; required for a trained
                head.
            held_out_labels: The names of their labels.
            experts: The names of the experts to use. None: all.
            show_progress: Whether to show a progress bar.
            class_proportions: The proportions of the labels among future texts. ``"estimated"``: if the examples were
                sampled evenly per label, the proportions are estimated from the examples and documents. Otherwise,
                those of the examples are used. With ``held_out_texts``, the proportions of these are used.
                ``"uniform"``: all labels are equally frequent. A dictionary: a number for each label by name.
            teacher: What another model says of documents (``suggest`` chooses some): the label of each id, or the
                probability of each label. None: what an earlier fit was told is used. False: it is dropped.
            hierarchy: The tree of the labels, for ``reject`` to answer with a parent where a label is too uncertain.
                None: that of the earlier fit; without one, labels named like ``"law > contracts > lease"`` are a tree,
                and others are not. A string: another separator, such as ``"/"``. A dictionary: the parent of each
                label, and of each parent that has one itself. False: no tree. It changes no probability.

        Returns:
            The weights, and the accuracy of each expert; it prints as a table.

        Raises:
            TypeError: If ``hierarchy`` is none of these, or texts are not given by name.
            ValueError: If there are no examples, all have one label, or a trained classifier gets no held-out texts.
        """
        from .fit_datastore import fit_datastore

        _refuse_texts("fit", texts, labels)
        return fit_datastore(
            self.embedder,
            self._datastore(),
            held_out_texts=held_out_texts,
            held_out_labels=held_out_labels,
            experts=experts,
            show_progress=show_progress,
            corpus=self._corpus,
            class_proportions=class_proportions,
            teacher=teacher,
            hierarchy=hierarchy,
        )

    def suggest(self, n: int = 10, again: bool = False) -> list[Suggestion]:
        """Suggest documents to label next (active learning).

        Documents and examples are clustered, and the clusters with the highest margin uncertainty and the fewest
        examples give one document each. Label them with ``add_examples``, and call ``fit`` before the next batch.

        Args:
            n: The number of documents. About ten are best, as each batch uses the labels of the last one.
            again: Whether to suggest documents again that an earlier call suggested, and that have no label yet.

        Returns:
            For each document its ``id``, ``text`` and ``text_pair``; the current answer, ``label`` and ``score``, and
            ``labels`` if a text may have several; and the ``reason``. The most useful document comes first.

        Raises:
            ValueError: If nothing was fitted, or fewer than ``n`` documents are left.
        """
        from .active_learning import suggest

        has_head = self.model.config.num_labels > 0
        return suggest(self._datastore(), n, again, self.embedder if has_head else None)

    @sum_up_warnings()
    def measure_drift(
        self, texts: Any, earlier: Any = None, reject: float = 0.05, show_progress: bool = False, **options: Any
    ) -> DriftReport:
        """Compare new texts with earlier ones, or with those of the datastore, after ``fit``.

        Args:
            texts: Texts, or pairs of texts, in any form that a call takes. Empty ones are counted, and left out.
            earlier: Texts of an earlier period, to compare with. None: the documents without labels, or, without
                documents, the examples that ``fit`` held out.
            reject: The error rate to allow, as for a call: the report counts the texts without an answer.
            show_progress: Whether to show a progress bar.
            **options: ``bf16``, ``batch_size``, ``max_length``, ``max_passages`` as for a call.

        Returns:
            The changes, and the new words; it prints as a table.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If all texts are empty, nothing was fitted, or ``reject`` is not between 0 and 1.
        """
        from ..fitting.drift.measure_drift import measure_drift

        experts = self._prepare_experts(self._datastore().snapshot)
        if experts is None:
            raise ValueError("Call fit() before measure_drift().")
        embedder = self._embedder_with(options)
        has_head = embedder.model.config.num_labels > 0
        return measure_drift(embedder.embed, has_head, experts, texts, earlier, reject, show_progress)

    def remove_examples(
        self, ids: Sequence[str] = (), *, texts: Sequence[str] = (), files: Sequence[str | Path] = ()
    ) -> None:
        """Remove examples, so that the next call ignores them, and the next save leaves nothing of them.

        The experts keep what they have learned until the next ``fit``.

        Args:
            ids: Ids that ``add_examples`` returned, or that ``neighbors`` have.
            texts: Texts of examples.
            files: Files that examples come from, as answers and ``neighbors`` name them.

        Raises:
            ValueError: If no example has that id, text or file.
        """
        from .editing import ids_to_remove

        store = self._datastore()
        store.remove(ids_to_remove(store, ids, texts, files))

    def remove_documents(
        self, ids: Sequence[str] = (), *, texts: Sequence[str] = (), files: Sequence[str | Path] = ()
    ) -> None:
        """Remove documents without labels, as ``remove_examples`` removes examples.

        Args:
            ids: Ids that ``add_documents`` returned.
            texts: Texts of documents.
            files: Files that documents come from.

        Raises:
            ValueError: If no document has that id, text or file.
        """
        from .editing import ids_to_remove

        if self.datastore is None:
            raise ValueError("There are no documents to remove: add_documents adds some.")
        self.datastore.remove_documents(ids_to_remove(self.datastore, ids, texts, files, are_documents=True))

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Change the labels of the given examples: of all, or of none if one is refused. Nothing is embedded again.

        Args:
            labels: For each id of an example the name of its new label; a list of names if a text may have several.

        Raises:
            TypeError: If an id is not a string, or a label not a name.
            ValueError: If no example has that id, or a label is new.
        """
        from .editing import relabel

        relabel(self._datastore(), labels)

    def audit(self, show_progress: bool = True) -> Audit:
        """Find wrong labels, copies and outliers among the examples, by the out-of-fold answers of ``fit``.

        Nothing is changed: ``apply_audit`` applies the findings, and ``fit()`` learns from the result.

        Args:
            show_progress: Whether to show a progress bar.

        Returns:
            The findings; they print as tables.

        Raises:
            ValueError: If nothing was fitted by folds, all examples have one label, or a head was trained on them.
        """
        from ..fitting.audit.audit_snapshot import audit_snapshot

        if self.model.config.num_labels:
            raise ValueError(
                "audit() needs out-of-fold answers to the examples, and this classifier was trained on all of "
                "them. Audit them with the encoder alone (docsplit fit), then train."
            )
        return audit_snapshot(self._datastore().snapshot, show_progress)

    def apply_audit(self, audit: Audit) -> tuple[dict[str, Labels], list[str]]:
        """Relabel examples marked by ``apply``, and remove those marked by ``remove``.

        The last example of a label is never removed. Call ``fit()`` afterwards.

        Args:
            audit: The result of ``audit``, possibly edited.

        Returns:
            The new labels by id, and the ids of the removed examples.

        Raises:
            ValueError: If the audit is of other examples, or was applied already.
        """
        from ..fitting.audit.audit_snapshot import corrections

        datastore = self._datastore()
        new_labels, removed = corrections(audit, datastore.snapshot)
        datastore.relabel(new_labels)
        datastore.remove(removed)
        return new_labels, removed

    def calibrate(
        self,
        texts: None = None,
        labels: None = None,
        *,
        held_out_texts: Any = None,
        held_out_labels: Sequence[Any] | None = None,
    ) -> Calibration:
        """Choose k, temperature and weight by log likelihood, and write them into the model's configuration.

        Args:
            texts, labels: Refused, as texts to learn from are given by ``add_examples``.
            held_out_texts: Held-out texts, not from the test set; those among the examples are ignored. None: each
                example is left out in turn, with all its copies, and the weight of a trained head stays.
            held_out_labels: The names of their labels.

        Returns:
            The calibration.

        Raises:
            TypeError: If a label is not a name, or texts are not given by name.
            ValueError: If there are too few examples, all held-out texts are among them, or their labels are missing.
        """
        from .calibration import recalibrate

        _refuse_texts("calibrate", texts, labels)
        return recalibrate(self.embedder, self._datastore(), held_out_texts, held_out_labels)

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:
        """Save model, tokenizer, datastore and calibration together, and a model card unless there is one.

        The folder's content is replaced at once: a killed process leaves the old classifier or the new one. Nothing is
        left in it of examples and documents that were removed, except what a trained head has learned from them.

        Args:
            save_directory: The folder. ``pipeline("docsplit-knn", model=folder)`` loads it again.
            **kwargs: Passed to ``PreTrainedModel.save_pretrained``.

        Raises:
            ValueError: If there are no examples to save.
        """
        from .model_card import save_classifier_card

        datastore = self._datastore()
        folder = Path(save_directory)
        with saved_together(folder) as staging:
            # Not Pipeline.save_pretrained: it writes custom_pipelines into the configuration, and transformers then
            # requires trust_remote_code even with docsplit_hf.
            self.model.save_pretrained(staging, **kwargs)
            if self.tokenizer is not None:  # an endpoint has none
                self.tokenizer.save_pretrained(staging)
            if (folder / CARD).exists():
                logger.info("The model card in %s is left as it is.", folder)
            else:
                save_classifier_card(staging, str(folder), self.model.config, datastore)
            datastore.save_pretrained(staging)

    def push_to_hub(self, repo_id: str, commit_message: str = "Upload a docsplit-knn pipeline", **kwargs: Any) -> Any:
        """Push model, tokenizer, datastore and calibration, in one commit, and a model card unless there is one.

        Args:
            repo_id, commit_message: The repository, and the message of the commit.
            **kwargs: ``private`` and ``token`` as for ``HfApi.create_repo``, others as for ``HfApi.upload_folder``.

        Returns:
            The result of ``HfApi.upload_folder``.
        """
        from .model_card import save_classifier_card

        def save(folder: Path, full_name: str) -> None:
            self.save_pretrained(folder)
            save_classifier_card(folder, full_name, self.model.config, self._datastore())

        return push_saved(repo_id, save, commit_message, **kwargs)

    def _add_examples(self, texts: Any, labels: Sequence[Any], ids: Sequence[str] | None, **options: bool) -> list[str]:
        """Add examples to the datastore, or to a new one, which is used from then on; ``options``: of ``editing``."""
        from .editing import add_examples, datastore_for_adding

        datastore = datastore_for_adding(self.embedder, self.datastore, labels)
        added = add_examples(self.embedder, datastore, texts, labels, ids, **options)
        self.datastore = datastore  # only now: a failed addition leaves no trace
        recalibrate_if_grown(self.model.config, datastore)
        if datastore.fitted is not None:
            logger.info("The neighbors use the new examples from now on; call fit() for the other experts.")
        return added

    def get_iterator(
        self, inputs: Any, num_workers: int, batch_size: int, _: Any, options: CallOptions, __: Any
    ) -> Iterator[Any]:
        """Classify the texts window by window.

        Lists are read in windows of 1,024 texts, or 256 with a progress bar, and fewer if they are long. Generators
        start with a window of ``batch_size`` (default 8), which doubles up to 1,024.
        """
        has_items = hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__")
        stream = (inputs[i] for i in range(len(inputs))) if has_items else iter(inputs)
        batch_size = None if batch_size == 1 else batch_size  # 1 is the default of Pipeline: no limit
        first_size = None if has_items else batch_size or FIRST_WINDOW_TEXTS
        total = len(inputs) if has_items else None
        return self._answering({**options, "batch_size": batch_size}).answers(stream, total, first_size)

    def run_single(self, inputs: Any, _: Any, options: CallOptions, __: Any) -> Any:
        """Classify one text or pair."""
        return next(self._answering(options).answers(iter([inputs]), 1))

    def check_model_type(self, supported_models: Any) -> None:
        """Accept any model: encoders have been turned into a ``KNNClassifier``."""

    def _sanitize_parameters(self, **options: Any) -> tuple[CallOptions, CallOptions, CallOptions]:
        # Preprocess, forward and postprocess are one step here, so all options are forward options.
        return {}, checked_options(**options), {}

    def _answering(self, options: CallOptions) -> Answering:
        """What answers texts with the options of a call."""
        show_progress = options.get("show_progress", False)
        embedder = make_embedder(self.model, self.tokenizer, **reading_options(options), show_progress=show_progress)
        if options.get("return_read", False) and not embedder.is_local:
            raise ValueError(f"{self.model.endpoint!r} does not report how much it reads: leave out return_read.")
        config = self.model.config
        is_one_vector = config.num_labels == 0 and config.long_documents != PASSAGES
        is_cut = "max_length" in options or "max_passages" in options

        def embed(texts: Sequence[str], pairs: Sequence[str | None]) -> Predictions:
            with self.device_placement():
                return embedder.embed(texts, pairs)

        return Answering(
            take_snapshot=lambda: self._datastore().snapshot,
            prepare_experts=self._prepare_experts,
            embed=embed,
            vote=NeighborVote(config.k, config.knn_temperature, config.knn_weight),
            options=options,
            can_reuse=is_one_vector and not is_cut and not options.get("return_read", False),
        )

    def _embedder_with(self, options: ReadingOptions) -> TextEmbedder:
        unknown = options.keys() - {*READING_OPTIONS}
        if unknown:
            raise TypeError(f"There is no argument {min(unknown)!r} here: choose among {', '.join(READING_OPTIONS)}.")
        return self.embedder.with_options(**options)

    def _prepare_experts(self, snapshot: Snapshot) -> PreparedExperts | None:
        # Local variable: other threads may set self._experts meanwhile.
        experts = prepare_experts(snapshot, self._experts)
        self._experts = experts
        return experts

    def _datastore(self) -> KNNDatastore:
        """The datastore, if it has any examples.

        Raises:
            ValueError: If it has none.
        """
        if self.datastore is None or not len(self.datastore.snapshot.keys):
            name = self.model.config.name_or_path
            has_head = self.model.config.num_labels > 0
            raise ValueError(
                f"No labeled examples yet{f' in {name}' if name else ''}: call add_examples(texts, "
                "labels), with a few texts of each label, or give a datastore to the pipeline."
                + (" For the classifier alone there is pipeline('text-classification')." if has_head else "")
            )
        return self.datastore


def _refuse_texts(method: str, texts: Any, labels: Any) -> None:
    """Raise TypeError for texts that are given as if a method learned from them."""
    if texts is not None or labels is not None:
        raise TypeError(
            f"{method} learns from the examples that add_examples was given. Texts to measure on are given by name: "
            f"{method}(held_out_texts=texts, held_out_labels=labels)."
        )
