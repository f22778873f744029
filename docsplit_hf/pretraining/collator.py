"""DataCollatorForDocSplit: make the tensors of a contrastive training step from segmented documents."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ..content_hash import short_digest
from ..encoders.portable.run_encoder import max_positions
from ..text.tokenization import special_tokens_around
from .streaming import EPOCH_KEY
from .views import ViewFunction, count_views, get_views

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..text.segmentation.segment_documents import SegmentedDocument

logger = logging.getLogger(__name__)

IGNORED_LABEL = -100  # ignored by the cross entropy of torch and by the losses of transformers


class _DocumentViews(NamedTuple):
    """The views of one document, as rows of a batch."""

    document_id: int
    lengths: list[int]  # tokens of each view before it was cut
    rows: list[dict[str, np.ndarray]]  # one per view


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
        views_kwargs: Options of the view function, such as ``{"ratio_min": 0.05}`` for ``views="cropping"``.

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
        self.prefix, self.suffix = special_tokens_around(self.tokenizer)
        self.special_ids = np.array(sorted(set(self.tokenizer.all_special_ids)), dtype=np.int64)
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
        made = [self._views(document) for document in documents]
        rows = [views.rows[number] for number in range(self.view_count) for views in made]
        padding = self.tokenizer.pad_token_id
        padding_values = {
            "input_ids": padding,
            "attention_mask": 0,
            "mlm_input_ids": padding,
            "mlm_labels": IGNORED_LABEL,
        }
        batch = {}
        for name in rows[0]:
            column = [torch.from_numpy(row[name]) for row in rows]
            batch[name] = pad_sequence(column, batch_first=True, padding_value=padding_values[name])
        batch["document_ids"] = torch.tensor([views.document_id for views in made], dtype=torch.int64)
        lengths = torch.tensor([views.lengths for views in made], dtype=torch.int64)  # (B, V)
        batch["view_lengths"] = lengths.T.flatten()
        return batch

    def _views(self, document: SegmentedDocument) -> _DocumentViews:
        """Make the views of a document, and the rows of the batch from them."""
        tokens = np.asarray(document["input_ids"], dtype=np.int64)
        sentence_lengths = np.asarray(document["sentence_lengths"], dtype=np.int64)
        number = document_id(tokens)
        rng = self._generator(number, document.get(EPOCH_KEY))
        views = self.view_function(tokens, sentence_lengths, rng)
        if len(views) != self.view_count:
            raise ValueError(
                f"The views {self.views_name!r} made {len(views)} views of a document and {self.view_count} of "
                "another: make the same number for every document."
            )
        rows = [self._row(view, rng) for view in views]
        return _DocumentViews(document_id=number, lengths=[len(view) for view in views], rows=rows)

    def _generator(self, document: int, epoch: int | None) -> np.random.Generator:
        """The random generator of a document in an epoch; None: the collator's epoch."""
        # Philox takes a key of two words, so that making a generator for each (seed, epoch, document) is fast.
        epoch = self.epoch if epoch is None else epoch
        seed_and_epoch = (self.seed & 0xFFFFFFFF) << 32 | (epoch & 0xFFFFFFFF)
        key = np.array([seed_and_epoch, document & (2**64 - 1)], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key))

    def _row(self, view: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Make the row of a view: cut it, add special tokens, and mask a copy."""
        kept = view[: self.max_length - len(self.prefix) - len(self.suffix)]
        tokens = np.concatenate([self.prefix, kept, self.suffix]).astype(np.int64)
        row = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        if self.mlm_probability > 0:
            masked, labels = mask_tokens(
                tokens,
                maskable=~np.isin(tokens, self.special_ids),
                mask_token_id=self.tokenizer.mask_token_id,
                vocab_size=len(self.tokenizer),
                probability=self.mlm_probability,
                rng=rng,
            )
            row["mlm_input_ids"] = masked
            row["mlm_labels"] = labels
        return row


def document_id(tokens: np.ndarray) -> int:
    """Hash the token ids of a document, int64 ``(n,)``, to a signed 64-bit number: equal for duplicates."""
    return int.from_bytes(short_digest(tokens.tobytes()), "little", signed=True)


def mask_tokens(
    tokens: np.ndarray,
    maskable: np.ndarray,
    mask_token_id: int,
    vocab_size: int,
    probability: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Mask tokens as BERT does (Devlin et al. 2019, section 3.1).

    Each ``maskable`` token is chosen with ``probability``. 80 % of the chosen tokens become the mask token, 10 % a
    random token, and 10 % stay unchanged. Returns the masked tokens, and the labels, which are -100 for tokens that
    were not chosen, ``(n,)`` each.
    """
    chosen = np.flatnonzero(maskable & (rng.random(len(tokens)) < probability))
    labels = np.full_like(tokens, IGNORED_LABEL)
    labels[chosen] = tokens[chosen]
    kind = rng.random(len(chosen))
    masked = tokens.copy()
    masked[chosen[kind < 0.8]] = mask_token_id
    replaced = chosen[kind >= 0.9]
    masked[replaced] = rng.integers(vocab_size, size=len(replaced))
    return masked, labels


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
