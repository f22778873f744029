"""Finding the datastore of a classifier: the one that is given, or the one in the classifier's own folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub.errors import LocalEntryNotFoundError

from ..models.portable.modeling_knn_classifier import MULTI_LABEL
from .store.datastore import KNNDatastore
from .store.embedding import check_problem_type
from .store.files.classifier_folder import check_classifier
from .store.probe import check_precision, check_probe
from .store.remote.connect import connect_datastore, is_remote

if TYPE_CHECKING:
    from ..models.inference.reader import Reader
    from ..models.portable.modeling_knn_classifier import KNNClassifier
    from .store.store import Store

logger = logging.getLogger(__name__)


def find_datastore(
    reader: Reader,
    given: Store | str | Path | None,
    is_classifier: bool,
    token: str | bool | None,
) -> Store | None:
    """The datastore, checked to be of this encoder and these labels. Only a classifier may have one in its folder."""
    model, probe = reader.model, None
    if given is not None and not isinstance(given, (str, Path)):
        datastore = given
    elif is_remote(given):
        probe, several = reader.probe(), model.config.problem_type == MULTI_LABEL
        new = {"probe": probe, "label_names": model.config.label_names}
        new |= {"multi_label": several} if model.config.num_labels else {}
        datastore = connect_datastore(given, token=token if isinstance(token, str) else None, **new)
    elif given is not None:
        datastore = KNNDatastore.from_pretrained(given, token=token)
    else:
        datastore = _own_datastore(model, token) if is_classifier else None
    if datastore is None:
        return None
    probe = reader.probe() if probe is None else probe
    check_probe(probe, datastore.probe)
    check_precision(reader, probe, datastore)
    if len(datastore) and not datastore.label_names:
        raise ValueError(
            "No example of the datastore has a label, so nothing can be told from them: embed the corpus with its "
            "labels (--label_column), or add_examples to a pipeline without it."
        )
    check_problem_type(model.config, datastore.multi_label, "The datastore's examples")
    trained = tuple(model.config.label_names)
    names = datastore.label_names[: len(trained)]
    if names != trained:
        raise ValueError(
            f"The classifier's labels are {trained}, and the datastore's begin with {names}: build the datastore with "
            "this classifier."
        )
    return datastore


def _own_datastore(model: KNNClassifier, token: str | bool | None) -> KNNDatastore | None:
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
