"""KNNClassifierPipeline: pipeline("docsplit-knn"), a text classification that can say which examples speak for it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm
from transformers import PreTrainedModel, TextClassificationPipeline

from ..models.inference.batched_inference import Predictions, predict
from ..models.inference.cut_texts import cut_texts_summed_up
from ..models.portable.modeling_knn_classifier import KNNClassifier
from ..models.portable.packing import use_packing
from .add_documents import add_documents
from .add_examples import add_examples, datastore_to_grow
from .add_labels import described_examples
from .card import ClassifierFacts, save_classifier_card
from .classification_output import Shown, classification_output
from .encoder_as_classifier import encoder_as_classifier
from .experts.corpus import joined_texts
from .experts.fitted_experts import ReadyExperts, ready_experts
from .experts.mixture_of_experts import mix_experts
from .find_datastore import find_datastore
from .fit import fit
from .mixing.mixture import Mixture, mix_with_neighbors, with_documents
from .recalibrate import recalibrate_if_grown, recalibrate_on_examples, recalibrate_on_held_out
from .store.classifier_files import saved_together
from .store.hub_folder import CARD, upload
from .texts_and_labels import as_list, texts_and_pairs

if TYPE_CHECKING:
    from .experts.fit_report import FitReport
    from .mixing.calibration import Calibration
    from .store.datastore import KNNDatastore

logger = logging.getLogger(__name__)

FIRST_WINDOW, WINDOW = 8, 1024  # texts that are sorted by length and looked up together: at first, and at most
WINDOW_WITH_PROGRESS = 256  # so that the bar moves


class KNNClassifierPipeline(TextClassificationPipeline):
    """Classifies texts, or pairs of texts, by a classifier and by the nearest labeled examples.

    Made by ``pipeline("docsplit-knn", model=...)`` once docsplit_hf is imported. The model is a ``KNNClassifier`` with
    its datastore in the same folder or repository; or any encoder, which becomes a classifier with ``add_examples``,
    without any training. ``pipeline("docsplit-knn")`` alone takes the encoder that ships with docsplit_hf.

    Input and output are those of ``pipeline("text-classification")``. Texts of similar length are read in one batch,
    in whatever form they are given; texts that are longer than the model reads are cut, which is logged.

    Args:
        model: A ``KNNClassifier``, or an encoder without a head.
        tokenizer: Its tokenizer.
        datastore: The labeled examples, or the folder or repository that they are in. None: those of the model's own
            folder or repository, if it has any.
        datastore_token: For a datastore in a private repository: ``pipeline`` keeps its ``token`` to itself.
        packing: Whether the model runs without padding: ``"auto"``, where it gives the same; ``"on"``; ``"off"``.
        **kwargs: As ``Pipeline``, and the arguments of a call as defaults for all calls.

    Raises:
        ValueError: If the datastore was built by another encoder.

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

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Any = None,
        datastore: KNNDatastore | str | Path | None = None,
        datastore_token: str | bool | None = None,
        packing: str = "auto",
        **kwargs: Any,
    ) -> None:
        if tokenizer is None:
            raise ValueError("The pipeline needs a tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...).")
        is_classifier = isinstance(model, KNNClassifier)
        kwargs["task"] = "text-classification"  # the name that other libraries know
        super().__init__(model=model if is_classifier else encoder_as_classifier(model), tokenizer=tokenizer, **kwargs)
        use_packing(self.model, packing)
        self.datastore = find_datastore(self.model, tokenizer, datastore, is_classifier, datastore_token)
        self._experts: ReadyExperts | None = None
        if self.datastore is not None:
            recalibrate_if_grown(self.model.config, self.datastore)

    @cut_texts_summed_up()  # a generator is read later, and logged as it is read
    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Classify.

        Args:
            inputs: A text; a pair of texts as a dictionary with ``text`` and ``text_pair``; a list, an array, a Series,
                a generator or a data set of them; or a DataFrame or ``datasets.Dataset`` with the column ``text`` and
                maybe ``text_pair``.
            **kwargs: ``top_k``: how many labels to give for each text; None for all. ``return_neighbors``: how many of
                the nearest examples to give, ``return_documents``: of the nearest documents without labels.
                ``explain``: whether to say why, after ``fit``. ``k``, ``knn_temperature``, ``knn_weight``: instead of
                the calibrated ones; with any of them, the answer is that of equation 3, whatever was fitted.
                ``batch_size``, ``max_tokens_per_batch``: the most texts, and the most tokens, in one forward. ``bf16``:
                compute in bfloat16, faster where the hardware has it, and not quite the same. ``max_length``: the
                longest input in tokens. ``show_progress``: whether to show a progress bar.

        Returns:
            ``{"label": ..., "score": ...}`` for each text, the best label; with ``top_k`` a list of them. A single text
            without ``top_k`` gives a list of one, as ``pipeline("text-classification")`` does. With
            ``return_neighbors=n`` the n nearest examples are in ``neighbors``, nearest first, each with its ``label``
            (``labels``, where it may have several), ``text``, ``text_pair`` where there is one, ``id``, ``distance``
            (squared L2) and ``weight``: its share in the vote, which adds up to 1 over the k neighbors and is 0 beyond
            them. With ``top_k``, each label has those of them that have it. With ``explain``, ``explanation`` has
            ``experts``: what each adds to the log odds of the label against the next best one, ``against``; and
            ``words``: those that add most. Where experts were fitted on texts with several labels, ``labels`` are those
            whose probability reaches their threshold, chosen by folds.

        Raises:
            TypeError: If an input is neither a text nor such a dictionary.
            ValueError: If an argument is out of its range, or there are no examples to be near to.
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
            allow_new_labels: Whether labels may be new to a classifier, or to a datastore that is not empty. The
                classifier itself gives them no probability; only the neighbors do.
            allow_duplicates: Whether to add an example that is there already, so that it counts twice.

        Returns:
            The ids, one for each text. A text that was there already keeps its id, whatever ``ids`` says.

        Raises:
            TypeError: If a text is not a string, or a label not a name.
            ValueError: If a text is empty, the numbers differ, an id is taken, or a label is new.
        """
        return self._add_examples(texts, labels, ids, allow_new_labels, allow_duplicates)

    def add_labels(self, descriptions: Mapping[str, str]) -> list[str]:
        """Add labels by name: what is said of each is its first example, and counts as one among those that come.

        So there are answers before any text is labeled. A description that is given again replaces the one before.

        Args:
            descriptions: For each label a few words, or a sentence, on what its texts say.

        Returns:
            The ids of the descriptions among the examples, ``"label:<name>"``.

        Raises:
            ValueError: If a name or a description is empty, or a label is new to a classifier that was trained.
        """
        texts, labels, ids = described_examples(descriptions)
        if self.datastore is not None and self.datastore.multi_label:
            labels = [[label] for label in labels]
        before = set() if self.datastore is None else set(self.datastore.ids) & set(ids)
        has_head = self.model.config.num_labels > 0
        return self._add_examples(texts, labels, ids, not has_head, allow_duplicates=True, replacing=before)

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
            The ids; None for a text that is not added, which is logged: it is empty, or there already.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If an id is taken.
        """
        datastore = datastore_to_grow(self.model, self.tokenizer, self.datastore)
        options |= {"show_progress": show_progress}
        added = add_documents(self.model, self.tokenizer, datastore, texts, ids, options)
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
        report = fit(self.model, self.tokenizer, self._datastore(), texts, labels, experts, show_progress)
        print(report)
        return report

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
        return recalibrate_on_held_out(self.model, self.tokenizer, datastore, texts, labels)

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:
        """Save model, tokenizer, datastore and calibration together, and a model card unless there is one.

        The folder's content is replaced at once: a killed process leaves the old classifier or the new one.

        Args:
            save_directory: The folder. ``pipeline("docsplit-knn", model=folder)`` loads it again.
            **kwargs: Passed to ``PreTrainedModel.save_pretrained``.

        Raises:
            ValueError: If there are no examples to save.
        """
        datastore, folder = self._datastore(), Path(save_directory)
        with saved_together(folder) as staging:
            # Not Pipeline.save_pretrained: it writes custom_pipelines into the configuration, and transformers then
            # asks for trust_remote_code even where docsplit_hf is installed.
            self.model.save_pretrained(staging, **kwargs)
            self.tokenizer.save_pretrained(staging)
            if (folder / CARD).exists():
                logger.info("The model card in %s is left as it is.", folder)
            else:
                save_classifier_card(staging, ClassifierFacts(str(folder), self.model.config, datastore))
            datastore.save_pretrained(staging)

    def push_to_hub(self, repo_id: str, commit_message: str = "Upload a docsplit-knn pipeline", **kwargs: Any) -> Any:
        """Push model, tokenizer, datastore and calibration, in one commit, and a model card unless there is one.

        docsplit_hf has never run on CUDA, with FSDP or DeepSpeed, or against the Hub.

        Args:
            repo_id, commit_message: The repository, and the message of the commit.
            **kwargs: ``private`` and ``token`` as for ``HfApi.create_repo``, others as for ``HfApi.upload_folder``.

        Returns:
            What ``HfApi.upload_folder`` returns.
        """

        def save(folder: Path, full_name: str) -> None:
            self.save_pretrained(folder)
            save_classifier_card(folder, ClassifierFacts(full_name, self.model.config, self._datastore()))

        return upload(repo_id, save, commit_message, **kwargs)

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
        _legacy: bool = True,
    ) -> list[Any]:
        """One output per text; ``_legacy`` gives the best label alone, as ``TextClassificationPipeline`` has it."""
        shown = Shown(return_neighbors, return_documents, explain)
        return [classification_output(mixture, row, top_k, shown, _legacy) for row in range(len(mixture.mixture))]

    def check_model_type(self, supported_models: Any) -> None:
        """Nothing to check: an encoder that is no ``KNNClassifier`` has become one."""

    def _sanitize_parameters(
        self,
        top_k: Any = "",
        return_neighbors: int | None = None,
        return_documents: int | None = None,
        explain: bool | None = None,
        k: int | None = None,
        knn_temperature: float | None = None,
        knn_weight: float | None = None,
        max_length: int | None = None,
        max_tokens_per_batch: int | None = None,
        bf16: bool | None = None,
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
        for name, value in (("show_progress", show_progress), ("explain", explain)):
            if value not in (None, True, False):
                raise ValueError(f"{name} must be True or False, got {value!r}.")
        preprocess |= {"bf16": bf16, "show_progress": show_progress}
        forward = {"k": k, "temperature": knn_temperature, "weight": knn_weight}
        labels = {} if top_k == "" else {"top_k": top_k, "_legacy": False}
        return _given(preprocess), _given(forward), _given({**shown, "explain": explain}) | labels

    def _forward(self, predictions: Predictions, texts: list[str], shown: Shown, **overrides: Any) -> Mixture:
        config, datastore = self.model.config, self._datastore()
        ready = self._experts = ready_experts(datastore.snapshot, self._experts)  # threads may set it meanwhile
        chosen = {"k": config.k, "temperature": config.knn_temperature, "weight": config.knn_weight} | overrides
        if ready is not None and not overrides:
            mixture = mix_experts(ready, predictions, texts, config.k, config.knn_temperature, shown.neighbors)
        elif shown.explanation:
            raise ValueError(
                "Only fitted experts can explain: call fit(), and leave out k, knn_temperature and knn_weight."
            )
        elif config.num_labels == 0 and overrides.get("weight", 1) != 1:
            raise ValueError(f"knn_weight={overrides['weight']}: there is no classification head to mix with.")
        else:
            mixture = mix_with_neighbors(predictions, datastore, **chosen, shown=shown.neighbors)
        return with_documents(mixture, datastore.snapshot, predictions.retrieval_embeddings, shown.documents)

    def _add_examples(self, texts: Any, labels: Sequence[Any], *options: Any, **more: Any) -> list[str]:
        datastore = datastore_to_grow(self.model, self.tokenizer, self.datastore, labels)
        added = add_examples(self.model, self.tokenizer, datastore, texts, labels, *options, **more)
        self.datastore = datastore
        recalibrate_if_grown(self.model.config, datastore)
        if datastore.fitted is not None:
            logger.info("The neighbors know the new examples from now on; the other experts learn of them by fit().")
        return added

    def _datastore(self) -> KNNDatastore:
        if self.datastore is None or not len(self.datastore):
            where, has_head = self.model.config.name_or_path, self.model.config.num_labels > 0
            raise ValueError(
                f"There are no examples to be near to{f' in {where}' if where else ''}: call add_examples(texts, "
                "labels), with a few texts of each label, or give a datastore to the pipeline."
                + (" For the classifier alone there is pipeline('text-classification')." if has_head else "")
            )
        return self.datastore

    def _classify_stream(
        self, stream: Iterator[Any], size: int, total: int | None, *parameters: dict[str, Any]
    ) -> Iterator[Any]:
        self._datastore()  # which says so before anything is computed
        preprocess_params, forward_params, postprocess_params = parameters
        asked = ("return_neighbors", "return_documents", "explain")
        done, shown = 0, Shown(*(postprocess_params.get(name, 0) for name in asked))
        options = dict(preprocess_params)
        show_progress = options.pop("show_progress", False)
        most = WINDOW_WITH_PROGRESS if show_progress else WINDOW
        with tqdm(total=total, desc="Classifying", unit="text", disable=not show_progress) as progress:
            while window := list(itertools.islice(stream, min(size, most))):
                texts = self.preprocess(window, done)
                with self.device_placement():
                    predictions = predict(self.model, self.tokenizer, *texts, **options)
                mixture = self._forward(predictions, joined_texts(*texts), shown, **forward_params)
                yield from self.postprocess(mixture, **postprocess_params)
                progress.update(len(window))
                done, size = done + len(window), min(2 * size, WINDOW)


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
