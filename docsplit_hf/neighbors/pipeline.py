"""KNNClassifierPipeline: pipeline("docsplit-knn"), a text classification that can say which examples speak for it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm
from transformers import PreTrainedModel, TextClassificationPipeline

from ..models.inference.backends import BackendOptions
from ..models.inference.embedders import make_embedder
from ..models.inference.long_documents import SEVERAL_VECTORS
from ..models.inference.text_embedder import Predictions, TextEmbedder
from ..models.inference.text_warnings import cut_texts_summed_up
from .audit.examine import DatalabInputs, audit_snapshot, corrections, datalab_inputs
from .card import save_classifier_card
from .editing import add_documents, add_examples, datastore_to_grow, described_examples, relabel
from .experts.content import have_no_content, warn_of_no_content
from .experts.corpus import KeptCorpus
from .experts.fitted_experts import ReadyExperts, ready_experts
from .experts.mixture_of_experts import predict_with_experts
from .fit import fit
from .mixing.calibration import recalibrate, recalibrate_if_grown
from .mixing.mixture import predict_with_neighbors
from .open_classifier import find_datastore, open_parts, read_as, warn_of_another_reading
from .prediction import Prediction, Shown, answer_of, text_inputs
from .rejection import NOVEL, check_error, check_lost, least_held_out
from .self_contained.save_code import CODE_PATTERNS, check_folder, save_code
from .store.duplicates import read_new
from .store.files.classifier_folder import CARD, saved_together, upload
from .store.row_table import ids_among
from .suggestions import suggest
from .texts_and_labels import as_list, joined_texts, texts_and_pairs
from .watching import watch

if TYPE_CHECKING:
    from .audit.report import Audit, Labels
    from .experts.fit_report import FitReport
    from .experts.log_linear_pool import ClassProportions
    from .mixing.calibration import Calibration
    from .store.store import Store
    from .watch_report import WatchReport

logger = logging.getLogger(__name__)

FIRST_WINDOW, WINDOW = 8, 1024  # texts that are sorted by length and looked up together: at first, and at most
WINDOW_WITH_PROGRESS = 256  # so that the bar moves
WINDOW_CHARACTERS = 2**24  # of all texts in it
DELAY_OF_INNER_BAR = 1.0  # seconds: a window that is read sooner needs no bar of its own
# Options of a call that the embedder takes.
READING = ("max_length", "max_passages", "max_tokens_per_batch", "bf16", "batch_size")
# Other options of a call: whole numbers with the least that they may be, truth values, and the rest.
LEAST = {"top_k": 1, "k": 1, "max_length": 1, "max_passages": 1, "max_tokens_per_batch": 1}
LEAST |= {"return_neighbors": 0, "return_documents": 0}
FLAGS = ("explain", "return_novelty", "return_read", "show_progress")
OTHER_OPTIONS = ("reject", "novelty", "reject_label", "knn_temperature", "knn_weight", "bf16", "truncation", "padding")


class KNNClassifierPipeline(TextClassificationPipeline):
    """Classifies texts, or pairs of texts, by a classifier and by the nearest labeled examples.

    Made by ``pipeline("docsplit-knn", model=...)`` once docsplit_hf is imported. The model is a ``KNNClassifier`` with
    its datastore in the same folder or repository; or any encoder, which becomes a classifier with ``add_examples``,
    without any training. ``pipeline("docsplit-knn")`` alone takes the encoder that ships with docsplit_hf. Input and
    output are those of ``pipeline("text-classification")``.

    Args:
        model: A ``KNNClassifier``, an encoder without a head, or an ``EndpointClassifier``.
        tokenizer: Its tokenizer; an ``EndpointClassifier`` has none.
        datastore: The labeled examples, or the folder or repository that they are in, or
            ``"milvus://HOST:19530/COLLECTION"``, which is made if it is not there. None: those of the model's own
            folder or repository, if it has any.
        datastore_token: For a datastore in a private repository or on a server; ``pipeline`` keeps its own ``token``.
        packing: Whether the model runs without padding: ``"auto"``, where it gives the same; ``"on"``; ``"off"``.
        long_documents: What is read of long texts: ``"whole"``, all of them; ``"first"``, their beginning;
            ``"head_tail"``, ``"average"``, ``"passages"`` or ``"late"``, as ``DocumentEncoder`` has them. It is saved
            with the model. None: as saved; for an encoder ``"whole"``, or with a datastore that is given ``"first"``,
            which is logged. Pairs of texts need ``"first"`` or ``"whole"``; their beginnings are read.
        passage_length: The longest passage in tokens, special tokens included. None: as many as the model reads,
            and 256 with ``"late"``.
        truncate_dim: How many leading dimensions of the embeddings are compared and kept, for encoders that were
            trained for it (``matryoshka_dims``). None: as saved, at first all.
        backend, precision, calibration_texts: As for ``DocumentEncoder.from_pretrained``. None: as the model runs
            already. A datastore that was built in another precision is refused where int8 finds other neighbors.
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
        parts = open_parts(model, tokenizer, truncate_dim, datastore is None, datastore_token)
        is_ours = parts.was_classifier
        kwargs["task"] = "text-classification"  # the name that other libraries know
        super().__init__(model=parts.model, tokenizer=parts.tokenizer, **kwargs)
        self.embedder.use_backend(BackendOptions(backend, precision, calibration_texts), packing)
        self.datastore = find_datastore(self.embedder, datastore, parts.datastore, datastore_token)
        is_told = is_ours or long_documents is not None
        if not is_told and self.datastore is None:
            long_documents = "whole"  # a datastore that is given has been read in its own way
        given = {"long_documents": long_documents, "passage_length": passage_length, "truncate_dim": truncate_dim}
        read_as(self.embedder, self.datastore if datastore is None else None, **given)
        if datastore is not None:
            warn_of_another_reading(self.embedder, self.datastore, is_told)
        self._experts: ReadyExperts | None = None
        self._corpus = KeptCorpus()
        if self.datastore is not None:
            recalibrate_if_grown(self.model.config, self.datastore)

    @property
    def embedder(self) -> TextEmbedder:
        """What embeds: the model with its tokenizer, as they are now."""
        return make_embedder(self.model, self.tokenizer)

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
                ``novelty``: the share of texts of the known labels that may be lost as they seem to be of none, such as
                0.05: so fewer texts of other labels get an answer; False: only those get none that are less familiar
                than 99 % of the held-out examples. Without it, 0.05 where ``fit`` found that documents are of other
                labels, and else False.
                ``reject_label``: the label of such texts, instead of None. ``return_novelty``: whether to say how
                unlike the examples a text is. ``return_read``: whether to say how much of a text was read. ``k``,
                ``knn_temperature``, ``knn_weight``: instead of the calibrated ones; with any of them the answer is that
                of equation 3, whatever was fitted. ``batch_size``, ``max_tokens_per_batch``: the most texts, and the
                most tokens, in one forward. ``bf16``: compute in bfloat16, faster where the hardware has it, and not
                quite the same; ``"auto"``: if it has. ``max_length``: the longest input in tokens. ``max_passages``:
                how many passages of a long text to read at most, where texts are read in passages; how much is not read
                is logged. ``show_progress``: whether to show a progress bar.

        Returns:
            For each text its best label, a dictionary with ``label`` and ``score``; with ``top_k`` a list of the best.
            A single text without ``top_k`` gives a list of one, as ``pipeline("text-classification")`` does. Options
            add:

            - ``neighbors``: the nearest examples, nearest first, each with its ``label`` (``labels``, where it may have
              several), ``text``, ``text_pair`` where there is one, ``id``, ``distance`` (squared L2) and ``weight``,
              its share of the vote (equation 2). After ``fit`` documents vote, too: their ``label`` is the most
              probable one that ``fit`` spread to them, with ``label_probability``. With ``top_k``, each label has those
              neighbors that have it.
            - ``explanation``: ``experts``, what each adds to the log odds of the label against the next best one,
              ``against``; and ``words``, those that add most. Of a label that came after ``fit``, a ``note`` instead.
            - ``novelty``: the share of the examples that were more familiar when they were held out: near 1 for a text
              of no known class. ``read``: the share of the text that was read. ``documents``: the nearest ones.
            - ``labels``, where experts were fitted on texts with several: those whose probability reaches their
              threshold, chosen by folds.

            Where texts are read in passages, an explanation has the ``passage`` that speaks most for the label, with
            ``start``, ``end`` and ``text``; a neighbor has its own nearest ``passage``, and that of the text as
            ``text_passage``. With ``reject``, ``label`` may be None, with the ``reason`` ``"no content"`` for a text
            without letters and digits, or of words that tell no labels apart; the promise holds in nine of ten draws of
            the examples, for texts like them.

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

        An example that is there already, the same text with the same labels, is not added again, which is logged. On an
        encoder without a head, k and temperature are chosen anew, by leaving each example out in turn, whenever the
        examples have grown by a tenth; not after they were chosen on held-out texts.

        Args:
            texts: Texts, or pairs of texts, in any form that a call takes.
            labels: The name of the label of each; a list of names where a text may have several.
            ids: A name for each, to remove it by. None: they are numbered.
            allow_new_labels: Whether labels may be new to a trained head, so that only the neighbors know them.
            allow_duplicates: Whether to add an example that is there already, so that it counts twice.

        Returns:
            The ids, one for each text. A text that was there already keeps its id, whatever ``ids`` says.

        Raises:
            TypeError: If a text is not a string, or a label not a name.
            ValueError: If a text is empty, the numbers differ, an id is taken, or a trained head does not know a label.
        """
        return self._add_examples(texts, labels, ids, allow_new_labels, allow_duplicates)

    def add_labels(self, descriptions: Mapping[str, str]) -> list[str]:
        """Add labels by description, which is an example like others: so there are answers before a text is labeled.

        Args:
            descriptions: For each label a few words, or a sentence, on its texts. A new description replaces the old.

        Returns:
            The ids of the descriptions, which are among the examples, such as
            ``"label:refund"``.

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

        One that gets a label later, by ``add_examples``, becomes an example, and is not embedded again.

        Args:
            texts: Texts, or pairs of texts, in any form that a call takes.
            ids: A name for each, to remove it by. None: they are numbered, "d0", "d1", ...
            show_progress: Whether to show a progress bar.
            **options: ``bf16``, ``batch_size``, ``max_tokens_per_batch``, ``max_length``, ``max_passages`` as for a
                call.

        Returns:
            The ids; None for a text that is not added, being empty or there already, which is logged.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If an id is taken.
        """
        embedder = self._embedder_with(options).with_options(show_progress=show_progress)
        datastore = datastore_to_grow(embedder, self.datastore)
        added = add_documents(embedder, datastore, texts, ids)
        self.datastore = datastore  # not before: a failed addition leaves nothing behind
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
        class_proportions: ClassProportions = "estimated",
    ) -> FitReport:
        """Learn from all examples and documents, and choose the weight of each expert.

        The experts are the ``classifier`` (its head, or a linear probe where there is none), the ``neighbors``, the
        ``words``, the ``topics``: how near a text is to the middle of each label's texts; the ``vocabulary``, a linear
        probe of the words of the examples; and the ``names`` of the labels: how near a text is to them. Labels of the
        examples are spread to the documents without any, so that neighbors, words and topics learn from these too.
        What the experts count is chosen by folds of the examples, and is kept with them: calls answer by the mixture
        of the experts from now on. Seconds for some thousand documents, as none is embedded again.

        Args:
            texts: Held-out texts to choose the weights on, instead of folds of the examples; a trained head needs them.
            labels: The names of their labels.
            experts: The names of those to use. None: all.
            show_progress: Whether to show a progress bar.
            class_proportions: How often each label is among the texts to come: ``"estimated"``, as among all texts that
                are there, which matters where the examples were drawn label by label (held-out texts show it
                themselves); ``"uniform"``; or a number for each label by its name.

        Returns:
            What was chosen, and how good each expert is; printed, it is a table.

        Raises:
            ValueError: If there are no examples, all have one label, or a trained classifier gets no held-out texts.
        """
        given = texts, labels, experts, show_progress, self._corpus, class_proportions
        return fit(self.embedder, self._datastore(), *given)

    def suggest(self, n: int = 10, again: bool = False) -> list[dict[str, Any]]:
        """Suggest which documents to label next: where the experts are unsure, and few examples are near.

        Documents and examples are clustered, and the clusters with most doubt and fewest examples give one document
        each. After a batch was labeled (``add_examples`` with the texts), call ``fit`` before the next one.

        Args:
            n: How many. Batches of some ten are best: the next one knows what was learned from this one.
            again: Whether documents may come that were suggested before, and got no label.

        Returns:
            For each document its ``id``, ``text`` and ``text_pair``; the present answer, ``label`` and ``score``, and
            ``labels`` where a text may have several; and the ``reason``. The most urgent comes first.

        Raises:
            ValueError: If nothing was fitted, or fewer than ``n`` documents are left.
        """
        datastore, has_head = self._datastore(), self.model.config.num_labels > 0
        return suggest(datastore, n, again, self.embedder if has_head else None)

    @cut_texts_summed_up()
    def report(
        self, texts: Any, earlier: Any = None, reject: float = 0.05, show_progress: bool = False, **options: Any
    ) -> WatchReport:
        """Compare texts that came in with what the datastore knows, after ``fit``.

        Args:
            texts: Texts, or pairs of texts, in any form that a call takes. Empty ones are counted, and left out.
            earlier: Texts of an earlier period, to compare with. None: the documents without labels, or, where there
                are none, the examples that ``fit`` held out.
            reject: The share of wrong answers to allow, as for a call: the report counts the texts without an answer.
            show_progress: Whether to show a progress bar.
            **options: ``bf16``, ``batch_size``, ``max_tokens_per_batch``, ``max_length``, ``max_passages`` as for a
                call.

        Returns:
            What changed, the new words, and the most novel texts. Printed, it is a table.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If there are no texts but empty ones, nothing was fitted, or ``reject`` is not between 0 and 1.
        """
        ready = self._ready_experts(self._datastore())
        if ready is None:
            raise ValueError("Nothing was fitted that texts could be compared with: call fit() first.")
        return watch(self._embedder_with(options), ready, texts, earlier, reject, show_progress)

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

        Nothing is changed: ``apply_audit`` does that, and ``fit()`` learns of it.

        Args:
            show_progress: Whether to show a progress bar.

        Returns:
            What was found; printed, it is a table.

        Raises:
            ValueError: If nothing was fitted by folds, all examples have one label, or a head was trained on them.
        """
        self._refuse_trained("audit")
        return audit_snapshot(self._datastore().snapshot, show_progress)

    def apply_audit(self, audit: Audit) -> tuple[dict[str, Labels], list[str]]:
        """Give the labels marked by ``apply``, and remove what is marked by ``remove``; a label keeps its last example.

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
        """Choose k, temperature and weight by log likelihood, and write them into the model's configuration.

        Args:
            texts: Held-out texts, which are not in the test set; those that are among the examples are left out. None:
                each example is left out in turn, with all its copies; the weight of a trained head stays as it is.
            labels: The names of their labels.

        Returns:
            The calibration.

        Raises:
            TypeError: If a label is not a name.
            ValueError: If there are too few examples, all held-out texts are among them, or their labels are missing.
        """
        return recalibrate(self.embedder, self._datastore(), texts, labels)

    def save_pretrained(self, save_directory: str | Path, self_contained: bool = False, **kwargs: Any) -> None:
        """Save model, tokenizer, datastore and calibration together, and a model card unless there is one.

        The folder's content is replaced at once: a killed process leaves the old classifier or the new one.

        Args:
            save_directory: The folder. ``pipeline("docsplit-knn", model=folder)`` loads it again.
            self_contained: Whether docsplit_hf's own code goes along, with ``handler.py`` for Inference Endpoints and
                ``requirements.txt``, so that ``pipeline(model=folder, trust_remote_code=True)`` works where docsplit_hf
                is not installed. transformers then asks for trust even where it is.
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
                facts = str(folder), self.model.config, datastore
                save_classifier_card(staging, *facts, self_contained=self_contained)
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
            facts = full_name, self.model.config, self._datastore()
            save_classifier_card(folder, *facts, self_contained=self_contained)

        return upload(repo_id, save, commit_message, code=CODE_PATTERNS, **kwargs)

    def _refuse_trained(self, method: str) -> None:
        if self.model.config.num_labels:
            raise ValueError(
                f"{method}() needs answers to examples that were not learned from, and this classifier was trained on "
                "all of them. Audit them with the encoder alone (or docsplit classify --no_training), then train."
            )

    def _add_examples(self, texts: Any, labels: Sequence[Any], *options: Any, **more: Any) -> list[str]:
        datastore = datastore_to_grow(self.embedder, self.datastore, labels)
        added = add_examples(self.embedder, datastore, texts, labels, *options, **more)
        self.datastore = datastore
        recalibrate_if_grown(self.model.config, datastore)
        if datastore.fitted is not None:
            logger.info("The neighbors know the new examples from now on; the other experts learn of them by fit().")
        return added

    def get_iterator(
        self, inputs: Any, num_workers: int, batch_size: int, _: Any, options: dict[str, Any], __: Any
    ) -> Iterator[Any]:
        """Classify: of a list 1,024 texts at a time; of a generator a batch or 8, then twice as many each time."""
        has_items = hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__")
        stream = (inputs[i] for i in range(len(inputs))) if has_items else iter(inputs)
        batch_size = None if batch_size == 1 else batch_size  # 1 is the default of Pipeline: no limit
        first = WINDOW if has_items else min(batch_size or FIRST_WINDOW, WINDOW)
        return self._answers(stream, first, len(inputs) if has_items else None, options | {"batch_size": batch_size})

    def run_single(self, inputs: Any, _: Any, options: dict[str, Any], __: Any) -> Any:
        """Classify one text or pair."""
        return next(self._answers(iter([inputs]), 1, 1, options))

    def check_model_type(self, supported_models: Any) -> None:
        """Nothing to check: an encoder that is no ``KNNClassifier`` has become one."""

    def _sanitize_parameters(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        # All options are "forward" ones: transformers' three steps are one here, _answers.
        given = {name: value for name, value in options.items() if value is not None or name == "top_k"}
        if unknown := given.keys() - {*LEAST, *FLAGS, *OTHER_OPTIONS}:
            raise TypeError(f"pipeline('docsplit-knn') has no argument {min(unknown)!r}.")
        if given.get("truncation", True) not in (True, "longest_first"):
            raise ValueError(f"truncation={given['truncation']!r}: long texts are always cut, and counted.")
        for name, least in LEAST.items():
            value = given.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
                raise ValueError(f"{name} must be a whole number from {least}, got {value!r}.")
        for name in FLAGS:
            if given.get(name, True) not in (True, False):
                raise ValueError(f"{name} must be True or False, got {given[name]!r}.")
        if not given.get("knn_temperature", 1) > 0:
            raise ValueError(f"knn_temperature must be above 0, got {given['knn_temperature']}.")
        if not 0 <= given.get("knn_weight", 1) <= 1:
            weight = given["knn_weight"]
            raise ValueError(f"knn_weight must be from 0 (classifier alone) to 1 (neighbors alone), got {weight}.")
        if "reject" in given:
            check_error(given["reject"])
        if "novelty" in given:
            check_lost(given["novelty"])
        if not isinstance(given.get("reject_label", ""), str):
            raise TypeError(f"reject_label must be a name, got {given['reject_label']!r}.")
        return {}, {name: value for name, value in given.items() if name not in ("truncation", "padding")}, {}

    def _answers(self, stream: Iterator[Any], size: int, total: int | None, options: dict[str, Any]) -> Iterator[Any]:
        """The answers to a stream of texts, of which ``size`` are read together at first."""
        datastore = self._datastore()  # which says so before anything is computed
        ready = self._ready_experts(datastore)
        _check_options(options, ready, datastore.label_names)
        asked = ("return_neighbors", "return_documents", "explain", "return_novelty", "return_read")
        shown = Shown(*(options.get(name, 0) for name in asked))
        if shown.read and not self.embedder.is_local:
            raise ValueError(f"{self.model.endpoint!r} does not say how much it reads: leave out return_read.")
        embedder = self.embedder.with_options(**{name: options[name] for name in READING if name in options})
        is_one_vector = self.model.config.num_labels == 0 and self.model.config.long_documents not in SEVERAL_VECTORS
        is_cut = "max_length" in options or "max_passages" in options
        is_stored = ready is not None and is_one_vector and not shown.read and not is_cut
        documents = ready.snapshot.documents if is_stored else None
        top_k, best_only, rejected = options.get("top_k"), "top_k" not in options, options.get("reject_label")
        show_progress = options.get("show_progress", False)
        embedder = embedder.with_options(show_progress=show_progress, progress_delay=DELAY_OF_INNER_BAR)
        done, most = 0, WINDOW_WITH_PROGRESS if show_progress else WINDOW
        # Of fewer texts, the bar of what is read of them is the one that moves.
        is_shown = show_progress and (total is None or total > WINDOW_WITH_PROGRESS)
        with tqdm(total=total, desc="Classifying", unit="text", disable=not is_shown) as progress:
            while window := _next_inputs(stream, min(size, most)):
                texts, pairs = texts_and_pairs(window, done)
                with self.device_placement():
                    predictions = (
                        embedder.embed(texts, pairs)
                        if documents is None
                        else read_new(embedder, documents, texts, pairs)
                    )
                joined = joined_texts(texts, pairs)
                if ready is not None and "reject" not in options:
                    warn_of_no_content(have_no_content(ready.snapshot, joined), joined, done)
                prediction = self._predict(predictions, joined, shown, options)
                for row in range(len(texts)):
                    yield answer_of(prediction, row, top_k, shown, best_only, rejected)
                progress.update(len(window))
                done, size = done + len(window), min(2 * size, WINDOW)

    def _embedder_with(self, options: dict[str, Any]) -> TextEmbedder:
        if unknown := options.keys() - {*READING}:
            raise TypeError(f"There is no argument {min(unknown)!r} here: choose among {', '.join(READING)}.")
        return self.embedder.with_options(**options)

    def _predict(self, encoded: Predictions, texts: list[str], shown: Shown, options: dict[str, Any]) -> Prediction:
        """Predict by the fitted experts; without any, or with an option of equation 3, by equation 3."""
        config = self.model.config
        datastore = self._datastore()
        reject = options.get("reject")
        ready = self._ready_experts(datastore)
        inputs = text_inputs(texts, encoded, datastore, shown)
        names = [name for name in ("k", "knn_temperature", "knn_weight") if name in options]
        if ready is not None and not names:
            return predict_with_experts(ready, inputs, shown, reject, options.get("novelty"))
        if shown.explanation or shown.novelty or reject is not None:
            raise ValueError(
                "Only fitted experts can explain, tell what is novel, and reject: call fit(), and leave out k, "
                "knn_temperature and knn_weight. A trained classifier is fitted on held-out texts: fit(texts, labels)."
            )
        if config.num_labels == 0 and options.get("knn_weight", 1) != 1:
            raise ValueError(f"knn_weight={options['knn_weight']}: there is no classification head to mix with.")
        return predict_with_neighbors(
            inputs,
            datastore,
            k=options.get("k", config.k),
            temperature=options.get("knn_temperature", config.knn_temperature),
            weight=options.get("knn_weight", config.knn_weight),
            shown=shown,
        )

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


def _check_options(options: dict[str, Any], ready: ReadyExperts | None, label_names: Sequence[str]) -> None:
    """Refuse options that do not go together, of the call or of the pipeline, and warn of what cannot be promised."""
    reject, reject_label, most_lost = (options.get(name) for name in ("reject", "reject_label", "novelty"))
    if reject is None:
        if most_lost is not None:
            raise ValueError(f"novelty={most_lost!r} is a second limit beside that of reject: pass reject, too.")
        if reject_label is not None:
            raise ValueError(f"reject_label={reject_label!r} is for texts without an answer: pass reject, too.")
        return
    if "top_k" in options:
        raise ValueError(f"reject gives a text one answer or none: leave out top_k={options['top_k']!r}.")
    if reject_label in label_names:
        raise ValueError(f"reject_label={reject_label!r} is a label of the examples: take another name.")
    if ready is None:
        return
    if np.isinf(ready.fitted.guarantees.confidence_threshold(reject, most_lost)):
        logger.warning(
            "No text gets an answer: reject=%g cannot be guaranteed. %s", reject, ready.fitted.guarantees.describe()
        )
    if most_lost and ready.fitted.guarantees.novelty_limit(most_lost) == NOVEL:
        logger.warning(
            "novelty=%g leaves out no more texts than without it: so few lost texts need %d held-out texts to be "
            "guaranteed, and there are %d. Add examples and fit() again, or allow more.",
            *(most_lost, least_held_out(most_lost), len(ready.fitted.held_out.ids)),
        )
