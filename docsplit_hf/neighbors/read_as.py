"""What a classifier reads of texts, and keeps of it: chosen before the first example, and kept in its configuration."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from huggingface_hub.errors import StrictDataclassError

from ..models.inference.long_documents import SEVERAL_VECTORS, check_strategy
from ..models.inference.text_warnings import unlogged

if TYPE_CHECKING:
    from ..models.inference.reader import Reader
    from .store.store import Store

logger = logging.getLogger(__name__)


def read_as(reader: Reader, datastore: Store | None, is_classifier: bool, **given: str | int | None) -> None:
    """Set ``long_documents``, ``passage_length`` and ``truncate_dim`` as given; not beside keys made with others.

    A classifier's configuration says how its keys were made. What was made with a plain encoder, its user knows.
    """
    config, long_documents = reader.model.config, given["long_documents"]
    if long_documents is not None:
        check_strategy(long_documents)
    own = {name: getattr(config, name) for name in given}
    changed = {name: value for name, value in given.items() if value not in (None, own[name])}
    has_texts = datastore is not None and (len(datastore) or datastore.documents is not None)
    if changed and has_texts and is_classifier:
        name, value = next(iter(changed.items()))
        raise ValueError(
            f"{name}={value!r}: the texts of the datastore were embedded with {own[name]!r}. Leave it out, or add the "
            "texts to a new pipeline."
        )
    if changed:
        for name, value in changed.items():
            setattr(config, name, value)
        try:
            config.validate()
            with unlogged():
                reader.read(["a"])  # what cannot work is refused now
        except (ValueError, StrictDataclassError):
            for name in changed:
                setattr(config, name, own[name])
            raise
    if has_texts and datastore.has_passages and config.long_documents not in SEVERAL_VECTORS:
        logger.warning(
            "The datastore has passages, and texts are read with long_documents=%r: pass what its own were read with, "
            "'passages' or 'late'.",
            config.long_documents,
        )
