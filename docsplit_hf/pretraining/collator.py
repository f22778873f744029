"""DataCollatorForDocSplit: make the tensors of a contrastive training step from segmented documents."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ..content_hash import short_digest
from ..encoding.portable.run_encoder import max_positions
from ..reading.tokenization import special_tokens_around
from .streaming import EPOCH_KEY
from .views import ViewFunction, count_views, get_views

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..reading.segmentation.segment_documents import SegmentedDocument

logger = logging.getLogger(__name__)

Masking = Callable[[np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]
IGNORED_LABEL = -100  # ignored by the cross entropy of torch and by the losses of transformers


def mask_tokens(
    tokens: np.ndarray,
    rng: np.random.Generator,
    probability: float,
    mask_token_id: int,
    vocab_size: int,
    is_special: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose each token that is not special with ``probability``; return the masked tokens and the labels.

    80 % of the chosen tokens become the mask token, 10 % a random token, and 10 % stay unchanged, as in BERT (Devlin et
    al. 2019, section 3.1). ``is_special``: bool, by token id; the last entry is for all ids from there on.
    """
    drawn = np.flatnonzero(rng.random(len(tokens)) < probability)
    places = drawn[~is_special.take(tokens[drawn], mode="clip")]
    kind = rng.random(len(places))
    replacements = tokens[places]
    replacements[kind < 0.8] = mask_token_id
    is_random = kind >= 0.9
    replacements[is_random] = rng.integers(vocab_size, size=np.count_nonzero(is_random))
    masked = tokens.copy()
    masked[places] = replacements
    labels = np.full_like(tokens, IGNORED_LABEL)
    labels[places] = tokens[places]
    return masked, labels


class _Row(NamedTuple):
    """A row of a batch: a view of a document."""

    document_id: int
    view_length: int  # tokens of the view before it was cut
    tokens: np.ndarray  # int64, cut, with special tokens
    masked: np.ndarray  # the same, some of them replaced; without MLM, equal to tokens
    labels: np.ndarray  # the tokens to predict, and -100 elsewhere


@dataclass
class DataCollatorForDocSplit:
    """Make batches of stacked views of documents, and a masked copy of the views.

    All randomness is a function of ``(seed, epoch, document)``. A document gets new halves and a new mask in every
    epoch, which do not depend on its batch, the number of workers or processes, or interruptions of the run.
    ``ContrastiveTrainer`` sets the epoch; in your own training loop, call ``set_epoch``.

    Rows are padded on the right to the longest row of the batch, regardless of the tokenizer's padding side.

    Args:
        tokenizer: The model's tokenizer.
        max_length: Longest view in tokens, including special tokens. Longer views are cut at the end;
            ``view_lengths`` has their lengths before. The papers do not state a length; 512 is BERT's limit.
        mlm_probability: Probability of masking a token. 0 leaves the masked copy out.
        views: View function: a name in ``docsplit_hf.pretraining.views.VIEWS``, or a function
            ``(tokens, sentence_lengths, rng) -> (anchor, positive)``, or one that returns more views.
        seed: Seed of every random choice.
        views_kwargs: Options of the view function, such as ``{"parts": 3}``.

    Raises:
        ValueError: If a value is out of range, the tokenizer has no padding token or, for MLM, no mask token, or the
            views or their options do not exist.
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int = 512
    mlm_probability: float = 0.15
    views: str | ViewFunction = "docsplit"
    seed: int = 0
    views_kwargs: dict[str, float] | None = None

    def __post_init__(self) -> None:
        self.view_function = get_views(self.views, self.views_kwargs)
        self.view_count = count_views(self.view_function)
        prefix, suffix = special_tokens_around(self.tokenizer)
        self.prefix = np.array(prefix, dtype=np.int64)
        self.suffix = np.array(suffix, dtype=np.int64)
        specials = len(self.prefix) + len(self.suffix)
        if self.max_length <= specials:
            raise ValueError(
                f"max_length={self.max_length} leaves no room for text beside the {specials} special tokens of "
                f"{type(self.tokenizer).__name__}: every half would be cut entirely. Use at least {specials + 1}."
            )
        if not 0 <= self.mlm_probability < 1:
            raise ValueError(f"mlm_probability must be in [0, 1), got {self.mlm_probability}.")
        if self.mlm_probability > 0 and self.tokenizer.mask_token_id is None:
            raise ValueError(
                f"{type(self.tokenizer).__name__} has no mask token, which masked language modeling needs: use another "
                "tokenizer, or train without MLM (mlm_probability=0 here, mlm_weight=0 in the arguments)."
            )
        if self.tokenizer.pad_token_id is None:
            raise ValueError(
                f"{type(self.tokenizer).__name__} has no padding token. Set one, for example "
                "tokenizer.pad_token = tokenizer.eos_token."
            )
        # Shared memory, for workers that outlive an epoch (dataloader_persistent_workers).
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    @property
    def views_name(self) -> str:
        """The name of the view function."""
        return str(self.views if isinstance(self.views, str) else getattr(self.views, "__name__", self.views))

    @property
    def epoch(self) -> int:
        """The epoch of the random choices of the next batch, from 0."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the following batches, from 0, here and in running data loader workers."""
        self._epoch.fill_(epoch)

    def for_evaluation(self) -> DataCollatorForDocSplit:
        """Copy the collator, with DocSplit's halves as views and the epoch 0."""
        return dataclasses.replace(self, views="docsplit", views_kwargs=None)

    def __call__(self, documents: list[SegmentedDocument]) -> dict[str, torch.Tensor]:
        """Make one batch.

        Args:
            documents: B documents from ``segment_documents``: ``input_ids`` without special tokens, and
                ``sentence_lengths``. Documents of a ``RepeatedStream`` carry its epoch, which replaces the collator's.

        Returns:
            A dictionary of int64 tensors. With V views per document (2, unless the view function makes more):

            - ``input_ids``, ``attention_mask``: ``(VB, L)``; rows i, B+i, 2B+i, ... are the views of document i.
            - ``mlm_input_ids``, ``mlm_labels``: ``(VB, L)``, unless ``mlm_probability`` is 0.
            - ``document_ids``: ``(B,)``, equal for documents with equal tokens.
            - ``view_lengths``: ``(VB,)``, tokens of each view before it was cut, without special tokens.

        Raises:
            ValueError: If there are no documents, or the view function makes more views of some than of others.
        """
        if not documents:
            raise ValueError("A batch needs at least one document, got none.")
        epoch = self.epoch
        masking = self._masking()
        made = [self._views(document, epoch, masking) for document in documents]
        rows = [views[number] for number in range(self.view_count) for views in made]
        lengths = np.array([len(row.tokens) for row in rows])
        is_token = np.arange(lengths.max()) < lengths[:, None]

        def padded(parts: list[np.ndarray], padding: int) -> np.ndarray:
            column = np.full(is_token.shape, padding, dtype=np.int64)
            column[is_token] = np.concatenate(parts)
            return column

        pad_id = self.tokenizer.pad_token_id
        columns = {"input_ids": padded([row.tokens for row in rows], pad_id)}
        columns["attention_mask"] = is_token.astype(np.int64)
        if masking is not None:
            columns["mlm_input_ids"] = padded([row.masked for row in rows], pad_id)
            columns["mlm_labels"] = padded([row.labels for row in rows], IGNORED_LABEL)
        columns["document_ids"] = np.array([row.document_id for row in rows[: len(documents)]], dtype=np.int64)
        columns["view_lengths"] = np.array([row.view_length for row in rows], dtype=np.int64)
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def _masking(self) -> Masking | None:
        """``mask_tokens`` for this tokenizer; None without MLM."""
        if self.mlm_probability == 0:
            return None
        special_ids = self.tokenizer.all_special_ids
        is_special = np.zeros(max(special_ids) + 2, dtype=bool)
        is_special[special_ids] = True
        return functools.partial(
            mask_tokens,
            probability=self.mlm_probability,
            mask_token_id=self.tokenizer.mask_token_id,
            vocab_size=len(self.tokenizer),
            is_special=is_special,
        )

    def _views(self, document: SegmentedDocument, epoch: int, masking: Masking | None) -> list[_Row]:
        """Make the views of a document, as rows of the batch."""
        # Copies, because a view function may change its tokens.
        tokens = np.array(document["input_ids"], dtype=np.int64)
        sentence_lengths = np.array(document["sentence_lengths"], dtype=np.int64)
        number = document_id(tokens)
        # The random generator is a function of seed, epoch and document. Philox takes a key of two words.
        epoch = int(document.get(EPOCH_KEY, epoch))
        key = [(self.seed & 0xFFFFFFFF) << 32 | (epoch & 0xFFFFFFFF), number & (2**64 - 1)]
        rng = np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64)))
        views = self.view_function(tokens, sentence_lengths, rng)
        if len(views) != self.view_count:
            raise ValueError(
                f"The views {self.views_name!r} made {len(views)} views of a document and {self.view_count} of "
                "another: make the same number for every document."
            )
        rows = []
        for view in views:
            kept = view[: self.max_length - len(self.prefix) - len(self.suffix)]
            tokens = np.concatenate([self.prefix, kept, self.suffix]).astype(np.int64, copy=False)
            masked, labels = (tokens, tokens) if masking is None else masking(tokens, rng)
            rows.append(_Row(number, view_length=len(view), tokens=tokens, masked=masked, labels=labels))
        return rows


def rows_as_arrays(dataset: torch.utils.data.Dataset) -> torch.utils.data.Dataset:
    """Let a ``datasets.Dataset`` give its rows as NumPy arrays, which are read and collated in less time than lists.

    Anything else, and a data set with a format or a transform of its own, is returned unchanged.
    """
    from datasets import Dataset

    if isinstance(dataset, Dataset) and dataset.format["type"] is None:
        return dataset.with_format("numpy")
    return dataset


def document_id(tokens: np.ndarray) -> int:
    """Hash the token ids of a document, int64 ``(n,)``, to a signed 64-bit number: equal for duplicates."""
    return int.from_bytes(short_digest(tokens.tobytes()), "little", signed=True)


def default_max_length(model: PreTrainedModel) -> int:
    """The maximum length in the model's configuration, or up to 512 tokens; it is logged if the model reads more."""
    positions = max_positions(model)
    stated = (getattr(model.config, "docsplit", None) or {}).get("max_length")
    length = stated or min(512, positions or 512)
    if positions and positions > length:
        logger.warning(
            "%s could read %d tokens, and %d of each view are read: set --max_length (max_length of the collator) up "
            "to %d to read more, at the cost of time and memory.",
            type(model).__name__,
            positions,
            length,
            positions,
        )
    return length
