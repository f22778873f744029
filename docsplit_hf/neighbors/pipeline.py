"""KNNClassifierPipeline: pipeline("docsplit-knn"), a text classification that can say which examples speak for it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm
from transformers import PreTrainedModel, TextClassificationPipeline

from ..models.checkpoints.settings import checkpoint_settings
from ..models.inference.batched_inference import Predictions, predict
from ..models.inference.cut_texts import cut_texts_summed_up
from ..models.portable.modeling_knn_classifier import KNNClassifier
from ..models.portable.packing import use_packing
from .card import ClassifierFacts, save_classifier_card
from .examples import KeepsExamples
from .mixing.answers import make_answer
from .pipeline_inputs import listed, texts_and_pairs
from .store.classifier_files import saved_together
from .store.hub_folder import CARD, upload

if TYPE_CHECKING:
    from .mixing.mixture import Mixture
    from .store.datastore import KNNDatastore

logger = logging.getLogger(__name__)

FIRST_WINDOW, WINDOW = 8, 1024  # inputs that are sorted by length and looked up together: at first, and at most
WINDOW_WITH_PROGRESS = 256  # so that the bar moves


class KNNClassifierPipeline(KeepsExamples, TextClassificationPipeline):
    """Classifies texts, or pairs of texts, by a classifier and by the nearest labeled examples.

    Made by ``pipeline("docsplit-knn", model=...)`` once docsplit_hf is imported. The model is a ``KNNClassifier`` with
    its datastore in the same folder or repository; or any encoder, which becomes a classifier with ``add_examples``,
    without any training. ``pipeline("docsplit-knn")`` alone takes the encoder that ships with docsplit_hf.

    It takes and gives what ``pipeline("text-classification")`` does: a text, a pair as ``{"text": ..., "text_pair":
    ...}``, a list of them, a generator, a data set; ``top_k``. What is added: texts are read in batches of similar
    length, whatever they came in as, and longer texts than the model reads are cut, which is logged.

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
        >>> from docsplit_hf import KNNClassifierPipeline
        >>> from docsplit_hf.models.small_bert import small_bert_config, train_small_bert_tokenizer
        >>> tokenizer = train_small_bert_tokenizer(["apples and pears", "iron and stone"], vocab_size=60)
        >>> encoder = BertModel(small_bert_config(tokenizer))  # in earnest: a pretrained one
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
        kwargs["task"] = "text-classification"  # which it is, and what evaluate's evaluator asks for
        super().__init__(model=model if is_classifier else _around_encoder(model), tokenizer=tokenizer, **kwargs)
        use_packing(self.model, packing)
        self.datastore = self._find_datastore(datastore, is_classifier, datastore_token)
        if self.datastore is not None:
            self._recalibrate_if_grown()

    @cut_texts_summed_up()  # what is said of a generator, which is read later, is logged as it is read
    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """Classify.

        Args:
            inputs: A text; a pair of texts as a dictionary with ``text`` and ``text_pair``; a list, an array, a Series,
                a generator or a data set of them; or a DataFrame or ``datasets.Dataset`` with the column ``text`` and
                maybe ``text_pair``.
            **kwargs: ``top_k``: how many labels to give for each text; None for all. ``return_neighbors``: how many of
                the nearest examples to give. ``k``, ``knn_temperature``, ``knn_weight``: instead of the calibrated
                ones. ``batch_size``: the most texts in one forward. ``max_tokens_per_batch``: the most tokens in one
                forward. ``bf16``: compute in bfloat16, faster where the hardware has it, and not quite the same.
                ``max_length``: the longest input in tokens. ``show_progress``: whether to show a progress bar.

        Returns:
            ``{"label": ..., "score": ...}`` for each text, the best label; with ``top_k`` a list of them. A single text
            without ``top_k`` gives a list of one, as ``pipeline("text-classification")`` does. With
            ``return_neighbors=n`` the answer has ``neighbors``, the n nearest examples, nearest first, each with its
            ``label`` (``labels``, where it may have several), ``text``, ``text_pair`` where there is one, ``id``,
            ``distance`` (squared L2) and ``weight`` (its share in the neighbors' vote; the weights of the k neighbors
            add up to 1, and what is shown beyond them has weight 0). With ``top_k``, each label has those of them that
            speak for it.

        Raises:
            TypeError: If an input is neither a text nor such a dictionary.
            ValueError: If an argument is out of its range, or there are no examples to be near to.
        """
        inputs = listed(inputs)
        if isinstance(inputs, list) and not inputs:
            return []
        return super().__call__(inputs, **kwargs)

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:
        """Save model, tokenizer, datastore and calibration together, and a model card unless there is one.

        What the folder held is replaced all at once: a killed process, or a full disk, leaves the old classifier or the
        new one.

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

        Args:
            repo_id: The repository.
            commit_message: The message of the commit.
            **kwargs: ``private`` and ``token`` as for ``HfApi.create_repo``, further ones as for
                ``HfApi.upload_folder``.

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
        """Classify a stream of inputs. Called by ``Pipeline``.

        A list or a data set is read 1,024 inputs at a time. Of a generator as many are read at first as a batch has, or
        8, so that the first answers come soon, and then twice as many each time, up to 1,024.

        Args:
            inputs: Anything that can be iterated over, or that has numbered items.
            num_workers: Not used: a fast tokenizer has threads of its own.
            batch_size: The most texts in one forward; 1, which is the default of ``Pipeline``, is no limit.
            preprocess_params: As ``_sanitize_parameters`` gives them.
            forward_params: As ``_sanitize_parameters`` gives them.
            postprocess_params: As ``_sanitize_parameters`` gives them.

        Returns:
            An answer for each input, in order.
        """
        has_items = hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__")
        stream = (inputs[i] for i in range(len(inputs))) if has_items else iter(inputs)
        batch_size = None if batch_size == 1 else batch_size
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
        """Classify one input. Called by ``Pipeline``.

        Args:
            inputs: A text, or a dictionary with ``text`` and ``text_pair``.
            preprocess_params: As ``_sanitize_parameters`` gives them.
            forward_params: As ``_sanitize_parameters`` gives them.
            postprocess_params: As ``_sanitize_parameters`` gives them.

        Returns:
            The answer.
        """
        return next(self._classify_stream(iter([inputs]), 1, 1, preprocess_params, forward_params, postprocess_params))

    def preprocess(self, inputs: list[Any], first: int = 0) -> tuple[list[str], list[str | None]]:
        """Tell texts and pairs apart.

        Args:
            inputs: Texts, or dictionaries.
            first: The number of the first of them in the stream.

        Returns:
            The texts, and the second text of each or None.
        """
        return texts_and_pairs(inputs, first)

    def postprocess(
        self,
        mixture: Mixture,
        top_k: int | None = 1,
        return_neighbors: int = 0,
        _legacy: bool = True,
    ) -> list[Any]:
        """Turn distributions into answers.

        Args:
            mixture: The distributions of some texts.
            top_k: How many labels to give; None for all.
            return_neighbors: How many neighbors to give.
            _legacy: Whether the best label is given alone, as ``TextClassificationPipeline`` has it.

        Returns:
            An answer for each text.
        """
        return [make_answer(mixture, row, top_k, return_neighbors, _legacy) for row in range(len(mixture.mixture))]

    def check_model_type(self, supported_models: Any) -> None:
        """Nothing to check: what is no ``KNNClassifier`` has become one.

        Args:
            supported_models: Not used.
        """

    def _sanitize_parameters(
        self,
        top_k: Any = "",
        return_neighbors: int | None = None,
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
        counts = {**preprocess, "k": k, "top_k": None if top_k == "" else top_k, "return_neighbors": return_neighbors}
        for name, value in counts.items():
            least = 0 if name == "return_neighbors" else 1
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
                raise ValueError(f"{name} must be a whole number from {least}, got {value!r}.")
        if knn_temperature is not None and not knn_temperature > 0:
            raise ValueError(f"knn_temperature must be above 0, got {knn_temperature}.")
        if knn_weight is not None and not 0 <= knn_weight <= 1:
            raise ValueError(f"knn_weight must be from 0 (classifier alone) to 1 (neighbors alone), got {knn_weight}.")
        if show_progress not in (None, True, False):
            raise ValueError(f"show_progress must be True or False, got {show_progress!r}.")
        preprocess |= {"bf16": bf16, "show_progress": show_progress}
        forward = {"k": k, "temperature": knn_temperature, "weight": knn_weight}
        labels = {} if top_k == "" else {"top_k": top_k, "_legacy": False}
        return _given(preprocess), _given(forward), _given({"return_neighbors": return_neighbors}) | labels

    def _forward(self, predictions: Predictions, shown: int = 0, **overrides: Any) -> Mixture:
        from .mixing.mixture import mix_with_neighbors

        config = self.model.config
        if config.num_labels == 0 and overrides.get("weight", 1) != 1:
            raise ValueError(f"knn_weight={overrides['weight']}: there is no classification head to mix with.")
        chosen = {"k": config.k, "temperature": config.knn_temperature, "weight": config.knn_weight} | overrides
        return mix_with_neighbors(predictions, self._datastore(), **chosen, shown=shown)

    def _classify_stream(
        self,
        stream: Iterator[Any],
        size: int,
        total: int | None,
        preprocess_params: dict[str, Any],
        forward_params: dict[str, Any],
        postprocess_params: dict[str, Any],
    ) -> Iterator[Any]:
        self._datastore()
        done, shown = 0, postprocess_params.get("return_neighbors", 0)
        options = dict(preprocess_params)
        show_progress = options.pop("show_progress", False)
        most = WINDOW_WITH_PROGRESS if show_progress else WINDOW
        with tqdm(total=total, desc="Classifying", unit="text", disable=not show_progress) as progress:
            while window := list(itertools.islice(stream, min(size, most))):
                with self.device_placement():
                    predictions = predict(self.model, self.tokenizer, *self.preprocess(window, done), **options)
                yield from self.postprocess(self._forward(predictions, shown, **forward_params), **postprocess_params)
                progress.update(len(window))
                done, size = done + len(window), min(2 * size, WINDOW)


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _around_encoder(model: PreTrainedModel) -> KNNClassifier:
    """A classifier by neighbors alone. Unit norm: embeddings that no triplet loss trained are compared by cosine."""
    if getattr(model, "peft_config", None):
        raise ValueError(
            "The pipeline got an encoder with an adapter on it: give it "
            "KNNClassifier.from_encoder(adapter, 0, decouple=False, normalize=True, knn_weight=1.0), which merges them."
        )
    if model.base_model is not model:
        logger.warning("The head of %s is not used: neighbors alone will decide.", type(model).__name__)
    encoder = model.base_model
    name = encoder.config.name_or_path
    settings = checkpoint_settings(name, encoder.config, getattr(encoder.config, "_commit_hash", None)) if name else {}
    if "pooling" not in settings:
        logger.warning("%s does not say how it pools: taking the first token ('cls').", name or type(model).__name__)
    settings = {name: value for name, value in settings.items() if value is not None}
    return KNNClassifier.around(encoder, 0, decouple=False, normalize=True, knn_weight=1.0, **settings)
