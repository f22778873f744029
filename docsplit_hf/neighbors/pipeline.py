"""KNNClassifierPipeline: pipeline("docsplit-knn"), a text classification that can say which examples speak for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.inference.long_documents.cut_texts import cut_texts_summed_up
from .answering_pipeline import AnsweringPipeline
from .audit.audit_snapshot import audit_snapshot
from .audit.corrections import corrections
from .audit.datalab_inputs import DatalabInputs, datalab_inputs
from .card import ClassifierFacts, save_classifier_card
from .editing.add_documents import add_documents
from .editing.add_examples import add_examples, datastore_to_grow
from .editing.add_labels import described_examples
from .editing.relabel import relabel
from .fit import fit
from .recalibrate import recalibrate_if_grown, recalibrate_on_examples, recalibrate_on_held_out
from .self_contained.save_code import CODE_PATTERNS, check_folder, save_code
from .store.files.classifier_folder import CARD, saved_together, upload
from .store.row_table import ids_among
from .suggestions.suggest import suggest
from .texts_and_labels import as_list
from .watching.known_words import known_words
from .watching.watch import Watcher, watch

if TYPE_CHECKING:
    import numpy as np

    from .audit.audit import Audit, Labels
    from .experts.fit_report import FitReport
    from .mixing.calibration import Calibration
    from .watching.watch_report import WatchReport

logger = logging.getLogger(__name__)


class KNNClassifierPipeline(AnsweringPipeline):
    """Classifies texts, or pairs of texts, by a classifier and by the nearest labeled examples.

    Made by ``pipeline("docsplit-knn", model=...)`` once docsplit_hf is imported. The model is a ``KNNClassifier`` with
    its datastore in the same folder or repository; or any encoder, which becomes a classifier with ``add_examples``,
    without any training. ``pipeline("docsplit-knn")`` alone takes the encoder that ships with docsplit_hf.

    Input and output are those of ``pipeline("text-classification")``. Texts of similar length are read in one batch,
    in whatever form they are given; ``long_documents`` says what is read of those that are too long for the model.

    Args:
        model: A ``KNNClassifier``, an encoder without a head, or an ``EndpointClassifier``.
        tokenizer: Its tokenizer; an ``EndpointClassifier`` has none.
        datastore: The labeled examples, or the folder or repository that they are in, or
            ``"milvus://HOST:19530/COLLECTION"``, which is made if it is not there. None: those of the model's own
            folder or repository, if it has any.
        datastore_token: For a datastore in a private repository, or on a server that asks for one: ``pipeline`` keeps
            its ``token`` to itself.
        packing: Whether the model runs without padding: ``"auto"``, where it gives the same; ``"on"``; ``"off"``.
        long_documents: What is read of long texts: ``"first"``, their beginning, where it is logged how much is left
            out; ``"head_tail"``, ``"average"``, ``"passages"`` or ``"late"``, as ``DocumentEncoder`` has them. None:
            what the model was saved with, at first ``"first"``. It is saved with the model.
        passage_length: The longest passage in tokens, special tokens included. None: as many as the model reads,
            and 256 with ``"late"``.
        truncate_dim: How many leading dimensions of the embeddings are compared and kept, for encoders that were
            trained for it (``matryoshka_dims``). None: as saved, at first all.
        backend, precision, calibration_texts: As for ``DocumentEncoder.from_pretrained``. None: as the model runs
            already, at first by torch in float32. A datastore that was built in another precision is tried with up to
            64 of its texts, and refused where int8 finds other neighbors.
        **kwargs: As ``Pipeline``, and the arguments of a call as defaults for all calls.

    Raises:
        ValueError: If the datastore was built by another encoder, or long texts were read in another way for it.

    Example:

        >>> from transformers import BertModel
        >>> from docsplit_hf.models.small_bert import small_bert_config, train_small_bert_tokenizer
        >>> tokenizer = train_small_bert_tokenizer(["apples and pears", "iron and stone"], vocab_size=60)
        >>> encoder = BertModel(small_bert_config(tokenizer))  # better: a pretrained one
        >>> pipe = KNNClassifierPipeline(model=encoder, tokenizer=tokenizer, device="cpu")
        >>> pipe.add_examples(["apples and pears", "iron and stone"], ["fruit", "mineral"])
        ['0', '1']
        >>> answer = pipe({"text": "apples and pears"}, k=1, return_neighbors=1)
        >>> answer["label"], answer["neighbors"][0]["id"]
        ('fruit', '0')
    """

    @cut_texts_summed_up()  # a generator is read later, and logged as it is read
    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Classify.

        Args:
            inputs: A text; a pair of texts as a dictionary with ``text`` and ``text_pair``; a list, an array, a Series,
                a generator or a data set of them; or a DataFrame or ``datasets.Dataset`` with the column ``text`` and
                maybe ``text_pair``.
            **kwargs: ``top_k``: how many labels to give for each text; None for all. ``return_neighbors``: how many of
                the nearest examples to give, ``return_documents``: of the nearest documents without labels.
                ``explain``: whether to say why, after ``fit``. ``reject``: the share of wrong answers to allow, such
                as 0.05: a text whose answer is too unsure for that, or that is like no example, gets none.
                ``reject_label``: the label of such texts, in place of None. ``return_novelty``: whether to say how
                unlike the examples a text is. ``k``, ``knn_temperature``, ``knn_weight``: instead of
                the calibrated ones; with any of them, the answer is that of equation 3, whatever was fitted.
                ``return_read``: whether to say how much of a text was read.
                ``batch_size``, ``max_tokens_per_batch``: the most texts, and the most tokens, in one forward. ``bf16``:
                compute in bfloat16, faster where the hardware has it, and not quite the same; ``"auto"``: if it has.
                ``max_length``: the longest input in tokens. ``show_progress``: whether to show a progress bar.

        Returns:
            For each text its best label, or with ``top_k`` a list of the best,
            ``{"label": ..., "score": ...}``. A single text
            without ``top_k`` gives a list of one, as ``pipeline("text-classification")`` does. With
            ``return_neighbors=n`` the n nearest examples are in ``neighbors``, nearest first, each with its ``label``
            (``labels``, where it may have several), ``text``, ``text_pair`` where there is one, ``id``, ``distance``
            (squared L2) and ``weight``: its share of the vote (equation 2), which adds up to 1 over those that vote and
            is 0 beyond them. After ``fit`` documents without labels vote, too: their ``label`` is the most probable one
            that ``fit`` spread to them, with ``label_probability``. With ``top_k``, each label has those of
            them that have it. With ``explain``, ``explanation`` has ``experts``: what each adds to the log odds of the
            label against the next best one, ``against``; and ``words``: those that add most. Where texts are read in
            passages, it also has the ``passage`` that speaks most for the label, with ``start``, ``end`` and ``text``;
            a neighbor has its own nearest one as ``passage``, and that of the text as ``text_passage``. With
            ``return_novelty``, ``novelty`` is the share of the examples that were more familiar when they were held
            out: of a text of no known class it is near 1. With ``return_read``, ``read`` is the share of the text that
            was read. With ``reject``, ``label`` may be None; the promise holds in nine of ten draws of the examples,
            for texts like them. Where experts were fitted on texts with several labels, ``labels`` are those whose
            probability reaches their threshold, chosen by folds.

        Raises:
            TypeError: If an input is neither a text nor such a dictionary.
            ValueError: If an argument is out of its range, or there are no labeled examples.
        """
        inputs = as_list(inputs)
        if isinstance(inputs, list) and not inputs:
            return []
        return super().__call__(inputs, **kwargs)

    def add_examples(
        self,
        texts: Any,
        labels: Sequence[Any],
        ids: Sequence[str] | None = None,
        allow_new_labels: bool = False,
        allow_duplicates: bool = False,
    ) -> list[str]:
        """Add labeled examples, which the next call sees.

        An example that is there already, the same text with the same labels, is not added again, which is logged: a
        cell of a notebook may be run twice.

        On an encoder without a classification head, k and temperature are chosen anew, by leaving each example out in
        turn, whenever the examples have grown by a tenth; not after they were chosen on held-out texts.

        Args:
            texts: Texts, or pairs of texts, in any form that a call takes.
            labels: The name of the label of each; a list of names where a text may have several.
            ids: A name for each, to remove it by. None: they are numbered.
            allow_new_labels: Whether labels may be new to a classifier that was trained: its head gives them no
                probability, only the neighbors do. Without a trained head a new label is just a label.
            allow_duplicates: Whether to add an example that is there already, so that it counts twice.

        Returns:
            The ids, one for each text. A text that was there already keeps its id, whatever ``ids`` says.

        Raises:
            TypeError: If a text is not a string, or a label not a name.
            ValueError: If a text is empty, the numbers differ, an id is taken, or a trained head does not know a label.
        """
        return self._add_examples(texts, labels, ids, allow_new_labels, allow_duplicates)

    def add_labels(self, descriptions: Mapping[str, str]) -> list[str]:
        """Add labels by name: what is said of each is its first example, and counts as one among those that come.

        So there are answers before any text is labeled. A description that is given again replaces the one before.

        Args:
            descriptions: For each label a few words, or a sentence, on what its texts say.

        Returns:
            The ids of the descriptions among the examples,
            ``"label:<name>"``.

        Raises:
            ValueError: If a name or a description is empty, or a label is new to a classifier that was trained.
        """
        texts, labels, ids = described_examples(descriptions)
        if self.datastore is not None and self.datastore.multi_label:
            labels = [[label] for label in labels]
        before = set() if self.datastore is None else ids_among(ids, self.datastore.find(ids=ids).rows)
        return self._add_examples(texts, labels, ids, allow_duplicates=True, replacing=before)

    def add_documents(
        self, texts: Any, ids: Sequence[str] | None = None, show_progress: bool = False, **options: Any
    ) -> list[str | None]:
        """Add documents without labels, from which ``fit`` learns what the examples cannot show.

        They are kept with the examples, and given back as neighbors only when asked (``return_documents``). One that
        gets a label later, by ``add_examples``, becomes an example, and is not embedded again.

        Args:
            texts: Texts, or pairs of texts, in any form that a call takes.
            ids: A name for each, to remove it by. None: they are numbered, "d0", "d1", ...
            show_progress: Whether to show a progress bar.
            **options: ``bf16``, ``batch_size``, ``max_tokens_per_batch``, ``max_length`` as for a call.

        Returns:
            The ids; None for a text that is not added, being empty or there already, which is logged.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If an id is taken.
        """
        reader = self.reader.with_options(show_progress=show_progress, **options)
        datastore = datastore_to_grow(reader, self.datastore)
        added = add_documents(reader, datastore, texts, ids)
        self.datastore = datastore
        return added

    def remove_documents(self, ids: Sequence[str]) -> None:
        """Remove documents.

        Args:
            ids: As ``add_documents`` returned them.

        Raises:
            ValueError: If there is no document of that id.
        """
        (self._datastore() if self.datastore is None else self.datastore).remove_documents(ids)

    def fit(
        self,
        texts: Any = None,
        labels: Sequence[Any] | None = None,
        experts: Sequence[str] | None = None,
        show_progress: bool = True,
    ) -> FitReport:
        """Learn from all examples and documents that are there, choose what each expert counts, and print it.

        The experts are the ``classifier`` (its head, or a linear probe where there is none), the ``neighbors``, the
        ``words``, and the ``topics``: how near a text is to the middle of each label's texts. Labels of the examples
        are spread to the documents without any, so that the last three learn from these too. What the experts count is
        chosen by folds of the examples, and is kept with them: calls answer by the mixture of the experts from now on.
        Seconds for some thousand documents, as none is embedded again.

        Args:
            texts: Held-out texts to choose by, instead of folds. A classifier that was trained on the examples needs
                them.
            labels: The names of their labels.
            experts: The names of those to use. None: all.
            show_progress: Whether to show a progress bar.

        Returns:
            What was chosen, and how good each expert is. It is printed too.

        Raises:
            ValueError: If there are no examples, all have one label, or a trained classifier gets no held-out texts.
        """
        datastore, corpus = self._datastore(), self._corpus
        report = fit(self.reader, datastore, texts, labels, experts, show_progress, corpus)
        print(report)
        return report

    def suggest(self, n: int = 10, again: bool = False) -> list[dict[str, Any]]:
        """Suggest which documents to label next: where the experts are unsure, and few examples are near.

        The documents and examples are put into clusters. Those with most doubt and fewest examples give one document
        each, one that stands for the others in it. So a batch has no two documents that ask the same. After it was
        labeled (``add_examples`` with the texts), call ``fit`` before the next one.

        Args:
            n: How many. Batches of some ten are best: the next one knows what was learned from this one.
            again: Whether documents may come that were suggested before, and got no label.

        Returns:
            For each document its ``id``, ``text`` and ``text_pair``; the present answer, ``label`` and ``score``, and
            ``labels`` where a text may have several; and the ``reason``. What asks for most comes first.

        Raises:
            ValueError: If nothing was fitted, or fewer than ``n`` documents are left.
        """
        datastore, has_head = self._datastore(), self.model.config.num_labels > 0

        def logits_of(texts: list[str], pairs: list[str | None]) -> np.ndarray | None:
            if has_head and None in texts:
                raise ValueError(
                    "Documents without texts have no answer of the classification head: give their texts to "
                    "add_documents."
                )
            return self.reader.read(texts, pairs).logits if has_head else None

        return suggest(datastore, n, again, logits_of)

    @cut_texts_summed_up()
    def report(
        self, texts: Any, earlier: Any = None, reject: float = 0.05, show_progress: bool = False, **options: Any
    ) -> WatchReport:
        """Compare texts that came in with what the datastore knows, after ``fit``.

        Args:
            texts: Texts, or pairs of texts, in any form that a call takes. Empty ones are counted, and left out.
            earlier: Texts of an earlier period, to compare with. None: the documents without labels, or, where there
                are none, the examples that ``fit`` held out. Examples are chosen by somebody, documents are what came.
            reject: The share of wrong answers to allow, as for a call; it is told how many texts get no answer.
            show_progress: Whether to show a progress bar.
            **options: ``bf16``, ``batch_size``, ``max_tokens_per_batch``, ``max_length`` as for a call.

        Returns:
            What changed, the new words, and the most novel texts. Printed, it is a table; ``plot(path)`` draws it.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If there are no texts but empty ones, nothing was fitted, or ``reject`` is not between 0 and 1.
        """
        ready = self._ready_experts(self._datastore())
        if ready is None:
            raise ValueError("Nothing was fitted that texts could be compared with: call fit() first.")
        watcher = Watcher(self.reader.with_options(**options), ready, known_words(ready.snapshot))
        return watch(watcher, texts, earlier, reject, show_progress)

    def remove_examples(self, ids: Sequence[str]) -> None:
        """Remove examples, which the next call does not see any more.

        Args:
            ids: As ``add_examples`` returned them, or as ``neighbors`` show them.

        Raises:
            ValueError: If there is no example of that id.
        """
        self._datastore().remove(ids)

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Give examples other labels, which the next call sees; nothing is embedded again. All of them, or none.

        Args:
            labels: By the id of an example the name of its label; a list of names where a text may have several.

        Raises:
            TypeError: If an id is no string, or a label not a name.
            ValueError: If there is no example of that id, or a label is new.
        """
        relabel(self._datastore(), labels)

    def audit(self, show_progress: bool = True) -> Audit:
        """Look for wrong labels, copies and outliers among the examples, by what ``fit`` learned from folds of them.

        It says about how many labels are wrong, and which ones are worth a look. Nothing is changed: ``apply_audit``
        does that, and ``fit()`` learns of it.

        Args:
            show_progress: Whether to show a progress bar.

        Returns:
            What was found; printed, it is a table.

        Raises:
            ValueError: If nothing was fitted by folds, all examples have one label, or the classifier was trained on
                them.
        """
        self._refuse_trained("audit")
        return audit_snapshot(self._datastore().snapshot, show_progress)

    def apply_audit(self, audit: Audit) -> tuple[dict[str, Labels], list[str]]:
        """Give the labels that are marked by ``apply``, and remove what is marked by ``remove``, after all was checked.

        A label keeps its last example, which is logged.

        Args:
            audit: What ``audit`` found here, maybe edited by a person. ``fit()`` learns of it.

        Returns:
            The labels that were given by id, and the ids of the examples that were removed.

        Raises:
            ValueError: If it is of other examples, or was applied already.
        """
        datastore = self._datastore()
        labels, removed = corrections(audit, datastore.snapshot)
        datastore.relabel(labels)
        datastore.remove(removed)
        return labels, removed

    def datalab_inputs(self) -> DatalabInputs:
        """What cleanlab's ``Datalab`` takes, of the examples that ``fit`` held out.

        ``Datalab(inputs.data, label_name="label").find_issues(pred_probs=inputs.pred_probs,
        features=inputs.features)``; with ``task="multilabel"`` where a text may have several labels.

        Raises:
            ValueError: As ``audit``.
        """
        self._refuse_trained("datalab_inputs")
        return datalab_inputs(self._datastore().snapshot)

    def calibrate(self, texts: Any = None, labels: Sequence[Any] | None = None) -> Calibration:
        """Choose k, temperature and weights by log likelihood, and write them into the model's configuration.

        Args:
            texts: Held-out texts, which are not in the test set; those that are among the examples are left out. None:
                each example is left out in turn, with all copies of it. This leaves the weight as it is: it says
                nothing about the weight of a classifier that was trained on the examples.
            labels: The names of their labels.

        Returns:
            The calibration.

        Raises:
            TypeError: If a label is not a name.
            ValueError: If there are too few examples, or all held-out texts are among them.
        """
        datastore = self._datastore()
        if texts is None:
            return recalibrate_on_examples(self.model.config, datastore)
        return recalibrate_on_held_out(self.reader, datastore, texts, labels)

    def save_pretrained(self, save_directory: str | Path, self_contained: bool = False, **kwargs: Any) -> None:
        """Save model, tokenizer, datastore and calibration together, and a model card unless there is one.

        The folder's content is replaced at once: a killed process leaves the old classifier or the new one.

        Args:
            save_directory: The folder. ``pipeline("docsplit-knn", model=folder)`` loads it again.
            self_contained: Whether docsplit_hf's own code goes along, with ``handler.py`` for Inference Endpoints and
                ``requirements.txt``, so that ``pipeline(model=folder, trust_remote_code=True)`` works where docsplit_hf
                is not installed. transformers then asks for trust even where it is, and code in a repository gets no
                corrections: so not unless asked for.
            **kwargs: Passed to ``PreTrainedModel.save_pretrained``.

        Raises:
            ValueError: If there are no examples to save, or ``self_contained`` cannot be.
        """
        datastore, folder = self._datastore(), Path(save_directory)
        if self_contained:
            check_folder(folder)
        with saved_together(folder) as staging:
            # Not Pipeline.save_pretrained: it writes custom_pipelines into the configuration, and transformers then
            # asks for trust_remote_code even where docsplit_hf is installed.
            self.model.save_pretrained(staging, **kwargs)
            if self.tokenizer is not None:  # an endpoint has none
                self.tokenizer.save_pretrained(staging)
            if (folder / CARD).exists():
                logger.info("The model card in %s is left as it is.", folder)
            else:
                facts = ClassifierFacts(str(folder), self.model.config, datastore, self_contained=self_contained)
                save_classifier_card(staging, facts)
            if self_contained:
                save_code(staging)
            datastore.save_pretrained(staging)

    def push_to_hub(
        self,
        repo_id: str,
        commit_message: str = "Upload a docsplit-knn pipeline",
        self_contained: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Push model, tokenizer, datastore and calibration, in one commit, and a model card unless there is one.

        Args:
            repo_id, commit_message: The repository, and the message of the commit.
            self_contained: As for ``save_pretrained``.
            **kwargs: ``private`` and ``token`` as for ``HfApi.create_repo``, others as for ``HfApi.upload_folder``.

        Returns:
            What ``HfApi.upload_folder`` returns.
        """

        def save(folder: Path, full_name: str) -> None:
            self.save_pretrained(folder, self_contained)
            facts = ClassifierFacts(full_name, self.model.config, self._datastore(), self_contained=self_contained)
            save_classifier_card(folder, facts)

        return upload(repo_id, save, commit_message, code=CODE_PATTERNS, **kwargs)

    def _refuse_trained(self, method: str) -> None:
        if self.model.config.num_labels:
            raise ValueError(
                f"{method}() needs answers to examples that were not learned from, and this classifier was trained on "
                "all of them. Audit them with the encoder as it is (pipeline('docsplit-knn', model=encoder), "
                "add_examples, fit; or run_classification.py --no_training), correct them, then train."
            )

    def _add_examples(self, texts: Any, labels: Sequence[Any], *options: Any, **more: Any) -> list[str]:
        datastore = datastore_to_grow(self.reader, self.datastore, labels)
        added = add_examples(self.reader, datastore, texts, labels, *options, **more)
        self.datastore = datastore
        recalibrate_if_grown(self.model.config, datastore)
        if datastore.fitted is not None:
            logger.info("The neighbors know the new examples from now on; the other experts learn of them by fit().")
        return added
