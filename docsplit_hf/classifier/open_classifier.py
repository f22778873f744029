"""Opening of the parts of a pipeline: classifier, tokenizer, datastore, and settings for long texts."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub.errors import LocalEntryNotFoundError, StrictDataclassError
from transformers import PreTrainedModel

from ..arrays.probe import check_probe
from ..encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT, LoadedFrom
from ..encoding.checkpoints.sentence_transformers_files import checkpoint_settings, choose_prompt, load_projection
from ..encoding.chunking import PASSAGES, check_strategy
from ..encoding.classifier_embedder import make_embedder
from ..encoding.portable.configuration_knn_classifier import KNNClassifierConfig
from ..encoding.portable.modeling_knn_classifier import KNNClassifier
from ..encoding.text_embedder import TextEmbedder
from ..fitting.interpolation import HELD_OUT_SOURCE
from ..reading.text_warnings import unlogged
from ..storage.atomic_replacement import FolderState, read_one_save
from ..storage.classifier_folder import check_classifier
from .answering import INSTEAD_OF_MILVUS
from .datastore_checks import check_precision, check_problem_type
from .knn_datastore import KNNDatastore

logger = logging.getLogger(__name__)

GROWTH_TO_RECALIBRATE = 1.1  # ratio of the numbers of examples


def encoder_as_classifier(
    model: PreTrainedModel, truncate_dim: int | None = None, prompt: str | None = None
) -> KNNClassifier:
    """Turn an encoder into a classifier without a head, with embeddings of norm 1.

    Raises:
        ValueError: If the encoder has an adapter.
    """
    if getattr(model, "peft_config", None):
        raise ValueError(
            "The pipeline got an encoder with an adapter on it: give it "
            "KNNClassifier.from_encoder(adapter, 0, decouple=False, normalize=True, knn_weight=1.0), which merges them."
        )
    if model.base_model is not model:
        logger.warning("The head of %s is not used: only neighbors are.", type(model).__name__)
    encoder = model.base_model
    name = encoder.config.name_or_path
    revision = getattr(model, "loaded_revision", None)
    settings = checkpoint_settings(name, encoder.config, revision, with_projection=True) if name else {}
    projection = None
    if name and name != DEFAULT_CHECKPOINT:  # which has neither; its name would be looked for on the Hub
        projection = load_projection(name, revision)
        prompt = choose_prompt(name, prompt, revision=revision)
    if "pooling" not in settings:
        logger.warning("%s does not say how it pools: the first token is used ('cls').", name or type(model).__name__)
    settings = {name: value for name, value in settings.items() if value is not None}
    settings |= {"truncate_dim": truncate_dim, "prompt": prompt or ""}
    return KNNClassifier.around(
        encoder, 0, projection=projection, decouple=False, normalize=True, knn_weight=1.0, **settings
    )


class Parts(NamedTuple):
    """The parts of a pipeline."""

    model: PreTrainedModel
    tokenizer: Any
    was_classifier: bool  # False for an encoder that was turned into a classifier
    datastore: KNNDatastore | None  # from the model's folder or repository


def open_parts(
    model: PreTrainedModel,
    tokenizer: Any,
    truncate_dim: int | None,
    prompt: str | None,
    own_datastore: bool,
) -> Parts:
    """Open the parts of a pipeline; parts in one folder come from the same save.

    ``transformers.pipeline`` read the model and then the tokenizer, and the datastore is read now. If another process
    saved to the folder in between, all of them are read again.
    """

    def parts_of(model: PreTrainedModel, tokenizer: Any) -> Parts:
        # A classifier that was loaded by the code in its repository gets the installed class.
        if model.config.model_type == KNNClassifierConfig.model_type and not isinstance(model, KNNClassifier):
            model.__class__ = KNNClassifier
            model.config.__class__ = KNNClassifierConfig
        was_classifier = isinstance(model, KNNClassifier) or hasattr(model.config, "endpoint")
        return Parts(
            tokenizer=make_embedder(model, tokenizer).tokenizer,
            datastore=_datastore_of_model(model) if was_classifier and own_datastore else None,
            model=model if was_classifier else encoder_as_classifier(model, truncate_dim, prompt),
            was_classifier=was_classifier,
        )

    loaded: LoadedFrom | None = vars(model).pop("loaded_from", None)
    if loaded is None:
        return parts_of(model, tokenizer)
    if loaded.state.place == loaded.folder:  # else transformers has read the tokenizer from other files
        try:
            parts = parts_of(model, tokenizer)
        except Exception:  # of any type, since parts of two saves may fail anywhere
            if FolderState.of(loaded.folder) == loaded.state:
                raise
        else:
            if FolderState.of(loaded.folder) == loaded.state:
                return parts
    logger.info("%s was changed while it was loaded: it is loaded again.", loaded.folder)
    is_of_folder = tokenizer is not None and Path(tokenizer.name_or_path) == loaded.folder
    given = None if is_of_folder else tokenizer
    parts, _ = read_one_save(loaded.folder, lambda place: parts_of(loaded.load(place), given), hold=True)
    return parts


def open_datastore(
    embedder: TextEmbedder, given: KNNDatastore | str | Path | None, own: KNNDatastore | None
) -> KNNDatastore | None:
    """Open the given datastore; None: use the ``own`` one of the model.

    Raises:
        ValueError: If the datastore was built by another encoder, has other labels, or is an address.
    """
    if given is None and own is None:
        return None
    config = embedder.model.config
    trained = tuple(config.label_names)
    datastore = own if given is None else given
    if isinstance(datastore, str) and "://" in datastore:
        raise ValueError(f"datastore={datastore!r} is no folder: {INSTEAD_OF_MILVUS}.")
    if isinstance(datastore, (str, Path)):
        datastore = KNNDatastore.from_pretrained(datastore)
    probe = embedder.probe()
    check_probe(probe, datastore.snapshot.probe)
    check_precision(embedder, probe, datastore.snapshot)
    if len(datastore) and not datastore.label_names:
        raise ValueError("No example of the datastore has a label: embed the corpus with labels (label_key).")
    check_problem_type(config, datastore.multi_label, "The datastore's examples")
    names = datastore.label_names[: len(trained)]
    if names != trained:
        both = f"The classifier's labels are {trained}, and the datastore's begin with {names}"
        raise ValueError(f"{both}: build the datastore with this classifier.")
    return datastore


def _datastore_of_model(model: PreTrainedModel) -> KNNDatastore | None:
    """Open the datastore in the folder or repository of a model, if any."""
    name = model.config.name_or_path
    if not name:
        return None
    revision = getattr(model, "loaded_revision", None)
    try:
        datastore = KNNDatastore.from_pretrained(name, revision=revision)
        check_classifier(name, revision)
    except LocalEntryNotFoundError:
        raise  # the Hub could not be reached
    except FileNotFoundError:
        logger.warning("There is no datastore in %s: add examples, or give one as datastore.", name)
        return None
    return datastore


def recalibrate_if_grown(config: KNNClassifierConfig, datastore: KNNDatastore) -> None:
    """Calibrate a classifier without a head again after growth by a tenth, unless calibrated on held-out texts."""
    last = config.knn_calibration or {}
    is_valid = config.num_labels or last.get("source") == HELD_OUT_SOURCE
    if not is_valid and len(datastore) >= GROWTH_TO_RECALIBRATE * last.get("datastore_rows", 0):
        from .calibration import TooFewExamplesError, recalibrate_on_examples

        with contextlib.suppress(TooFewExamplesError):
            recalibrate_on_examples(config, datastore)


def set_reading_strategy(
    embedder: TextEmbedder,
    own: KNNDatastore | None,
    **given: Any,
) -> None:
    """Set how texts are read, by settings of the configuration; None keeps a setting.

    Raises:
        ValueError: If texts of the ``own`` datastore of the model were read in another way, or the model does not
            support the settings.
    """
    config = embedder.model.config
    if given["long_documents"] is not None:
        check_strategy(given["long_documents"])
    before = {name: getattr(config, name) for name in given}
    changed = {name: value for name, value in given.items() if value not in (None, before[name])}
    if changed and own is not None and (len(own) or own.documents):
        name, value = next(iter(changed.items()))
        raise ValueError(
            f"{name}={value!r}: the texts of the datastore were embedded with {before[name]!r}. Leave it out, or add "
            "the texts to a new pipeline."
        )
    if changed:
        try:
            for name, value in changed.items():
                setattr(config, name, value)
            config.validate()
            with unlogged():
                embedder.embed(["a"])  # so that an unsupported setting raises now
        except (ValueError, StrictDataclassError):
            for name in changed:
                setattr(config, name, before[name])
            raise


def warn_of_different_strategy(embedder: TextEmbedder, given: KNNDatastore, is_strategy_known: bool) -> None:
    """Warn if the texts of a given datastore were, or may have been, read in another way."""
    strategy = embedder.model.config.long_documents
    if given.snapshot.passages is not None and strategy != PASSAGES:
        logger.warning("The datastore has passages, and texts are read with long_documents=%r: pass its own.", strategy)
    elif not is_strategy_known and (len(given) or given.documents):
        logger.warning(
            "A datastore does not record how its texts were read. Texts are read with long_documents=%r: pass it.",
            strategy,
        )
