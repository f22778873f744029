"""What a classifier reads of long texts: chosen before the first example, and kept in its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.portable.configuration_knn_classifier import KNNClassifierConfig
    from .store.datastore import KNNDatastore


def read_as(
    config: KNNClassifierConfig, datastore: KNNDatastore | None, long_documents: str | None, passage_length: int | None
) -> None:
    """Set the strategy, and the length of a passage, that are given; not beside keys that were made with others."""
    own = {"long_documents": config.long_documents, "passage_length": config.passage_length}
    given = {"long_documents": long_documents, "passage_length": passage_length}
    for name, value in given.items():
        if value is None or value == own[name]:
            continue
        if datastore is not None and (len(datastore) or datastore.documents is not None):
            raise ValueError(
                f"{name}={value!r}: the texts of the datastore were read with {own[name]!r}. Leave it out, or add the "
                "texts to a new pipeline."
            )
        setattr(config, name, value)
