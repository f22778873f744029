"""Opening what a pipeline is made of: the classifier, its datastore, and how it reads long texts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from huggingface_hub.errors import LocalEntryNotFoundError, StrictDataclassError
from transformers import PreTrainedModel

from ..models.checkpoints.checkpoint import LoadedFrom
from ..models.checkpoints.one_state import read_at_once
from ..models.checkpoints.sentence_transformers_files import checkpoint_settings
from ..models.inference.embedders import make_embedder
from ..models.inference.endpoint import EndpointClassifier
from ..models.inference.long_documents import SEVERAL_VECTORS, check_strategy
from ..models.inference.text_embedder import TextEmbedder
from ..models.inference.text_warnings import unlogged
from ..models.portable.configuration_knn_classifier import KNNClassifierConfig
from ..models.portable.modeling_knn_classifier import MULTI_LABEL, KNNClassifier
from .store.changes import check_problem_type
from .store.datastore import KNNDatastore
from .store.files.classifier_folder import check_classifier
from .store.milvus.connect import connect_datastore, is_remote
from .store.probe import check_precision, check_probe

if TYPE_CHECKING:
    from .store.store import Store

logger = logging.getLogger(__name__)


def is_classifier(model: PreTrainedModel) -> bool:
    """Whether a model is one of our classifiers; one that a repository's copy of our code loaded becomes one."""
    if model.config.model_type == KNNClassifierConfig.model_type and not isinstance(model, KNNClassifier):
        model.__class__, model.config.__class__ = KNNClassifier, KNNClassifierConfig
    return isinstance(model, (KNNClassifier, EndpointClassifier))


def encoder_as_classifier(model: PreTrainedModel, truncate_dim: int | None = None) -> KNNClassifier:
    """A classifier without a head; its embeddings have norm 1, as those that no triplet loss trained need cosines."""
    if getattr(model, "peft_config", None):
        raise ValueError(
            "The pipeline got an encoder with an adapter on it: give it "
            "KNNClassifier.from_encoder(adapter, 0, decouple=False, normalize=True, knn_weight=1.0), which merges them."
        )
    if model.base_model is not model:
        logger.warning("The head of %s is not used: neighbors alone will decide.", type(model).__name__)
    encoder = model.base_model
    name = encoder.config.name_or_path
    settings = checkpoint_settings(name, encoder.config, getattr(model, "loaded_revision", None)) if name else {}
    if "pooling" not in settings:
        logger.warning("%s does not say how it pools: taking the first token ('cls').", name or type(model).__name__)
    settings = {name: value for name, value in settings.items() if value is not None} | {"truncate_dim": truncate_dim}
    return KNNClassifier.around(encoder, 0, decouple=False, normalize=True, knn_weight=1.0, **settings)


class Parts(NamedTuple):
    """What a pipeline is made of."""

    model: PreTrainedModel
    tokenizer: Any
    was_classifier: bool  # before it was made one
    datastore: KNNDatastore | None  # the one in the model's folder or repository


def open_parts(
    model: PreTrainedModel, tokenizer: Any, truncate_dim: int | None, own_datastore: bool, token: str | bool | None
) -> Parts:
    """The parts of a pipeline; those that lie in one folder are of one save, whoever saves there meanwhile.

    ``transformers.pipeline`` has read model and tokenizer one after the other, and the datastore is read now. If a save
    came in between, all are read again.
    """

    def parts_of(model: PreTrainedModel, tokenizer: Any) -> Parts:
        was_classifier = is_classifier(model)
        tokenizer = make_embedder(model, tokenizer).tokenizer
        datastore = _own_datastore(model, token) if was_classifier and own_datastore else None
        classifier = model if was_classifier else encoder_as_classifier(model, truncate_dim)
        return Parts(classifier, tokenizer, was_classifier, datastore)

    loaded: LoadedFrom | None = vars(model).pop("loaded_from", None)
    if loaded is None:
        return parts_of(model, tokenizer)
    try:
        parts = parts_of(model, tokenizer)
    except Exception:  # of any kind: what is half old and half new can break anything
        if loaded.state.is_still(loaded.folder):
            raise
    else:
        if loaded.state.is_still(loaded.folder):
            return parts
    logger.info("%s was saved to while it was loaded: it is loaded again.", loaded.folder)
    is_of_folder = tokenizer is not None and Path(tokenizer.name_or_path) == loaded.folder
    given = None if is_of_folder else tokenizer
    parts, _ = read_at_once(loaded.folder, lambda: parts_of(loaded.load(), given), hold=True)
    return parts


def find_datastore(
    embedder: TextEmbedder, given: Store | str | Path | None, own: KNNDatastore | None, token: str | bool | None
) -> Store | None:
    """The datastore that is given, or the model's own one, checked to be of this encoder and these labels."""
    model, probe = embedder.model, None
    trained = tuple(model.config.label_names)
    if given is not None and not isinstance(given, (str, Path)):
        datastore = given
    elif is_remote(given):
        probe, new = embedder.probe(), {"label_names": trained}
        new |= {"multi_label": model.config.problem_type == MULTI_LABEL} if model.config.num_labels else {}
        datastore = connect_datastore(given, token=token if isinstance(token, str) else None, probe=probe, **new)
    elif given is not None:
        datastore = KNNDatastore.from_pretrained(given, token=token)
    else:
        datastore = own
    if datastore is None:
        return None
    probe = embedder.probe() if probe is None else probe
    check_probe(probe, datastore.probe)
    check_precision(embedder, probe, datastore)
    if len(datastore) and not datastore.label_names:
        raise ValueError("No example of the datastore has a label: embed the corpus with labels (--label_column).")
    check_problem_type(model.config, datastore.multi_label, "The datastore's examples")
    names = datastore.label_names[: len(trained)]
    if names != trained:
        both = f"The classifier's labels are {trained}, and the datastore's begin with {names}"
        raise ValueError(f"{both}: build the datastore with this classifier.")
    return datastore


def _own_datastore(model: PreTrainedModel, token: str | bool | None) -> KNNDatastore | None:
    own, revision = model.config.name_or_path, getattr(model, "loaded_revision", None)
    if not own:
        return None
    try:
        datastore = KNNDatastore.from_pretrained(own, revision=revision, token=token)
        check_classifier(own, revision, token)
    except LocalEntryNotFoundError:
        raise  # the Hub could not be asked
    except FileNotFoundError:
        logger.warning("There is no datastore in %s: add examples, or give one as datastore.", own)
        return None
    return datastore


def read_as(embedder: TextEmbedder, own: Store | None, **given: str | int | None) -> None:
    """Set how texts are read, where it is given; refused if those of the model's own datastore were read otherwise."""
    config = embedder.model.config
    if given["long_documents"] is not None:
        check_strategy(given["long_documents"])
    before = {name: getattr(config, name) for name in given}
    changed = {name: value for name, value in given.items() if value not in (None, before[name])}
    if changed and own is not None and (len(own) or own.documents is not None):
        name, value = next(iter(changed.items()))
        said = f"the texts of the datastore were embedded with {before[name]!r}"
        raise ValueError(f"{name}={value!r}: {said}. Leave it out, or add the texts to a new pipeline.")
    if changed:
        try:
            for name, value in changed.items():
                setattr(config, name, value)
            config.validate()
            with unlogged():
                embedder.embed(["a"])  # what cannot work is refused now
        except (ValueError, StrictDataclassError):
            for name in changed:
                setattr(config, name, before[name])
            raise


def warn_of_another_reading(embedder: TextEmbedder, given: Store, is_told: bool) -> None:
    """Say how texts are read where those of a given datastore were not read like that, or nobody told how."""
    read = embedder.model.config.long_documents
    if given.has_passages and read not in SEVERAL_VECTORS:
        logger.warning("The datastore has passages, and texts are read with long_documents=%r: pass its own.", read)
    elif not is_told and (len(given) or given.documents is not None):
        logger.warning(
            "A datastore does not keep how it was read. Texts are read with long_documents=%r: give it.", read
        )
