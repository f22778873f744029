"""DataCollatorForDocSplit: from segmented documents to the tensors of a contrastive training step."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ..models.portable.run_encoder import max_positions
from ..text.tokenization import special_tokens_around
from .streaming import EPOCH_KEY
from .views import ViewFunction, count_views, get_views

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

IGNORED_LABEL = -100  # what torch's cross entropy leaves out, and transformers' loss with it


@dataclass
class DataCollatorForDocSplit:
    """Turns documents into stacked views, positives of one another, and a masked copy of them.

    All randomness is a function of ``(seed, epoch, document)``: a document gets new halves and a new mask in every
    epoch, and the same ones again whatever the batch, the number of workers or processes, or the point at which a run
    was interrupted. ``ContrastiveTrainer`` sets the epoch; in a loop of your own, call ``set_epoch``.

    Rows are padded on the right to the longest row of the batch, whatever the tokenizer's own padding side.

    Args:
        tokenizer: The model's tokenizer.
        max_length: Longest view in tokens, special tokens included. What is longer is cut at the end and counted in
            ``view_lengths``. The papers do not state the length that they pretrained with; 512 is BERT's limit.
        mlm_probability: Chance of a token to be masked. 0 leaves the masked copy out.
        views: How the positive pair is made: a name in ``docsplit_hf.pretraining.views.VIEWS`` or a function
            ``(tokens, sentence_lengths, rng) -> (anchor, positive)``, or of more views.
        seed: Changes every random choice.
        views_kwargs: Options of the view function, such as ``{"ratio_min": 0.05}`` for ``views="cropping"``.

    Raises:
        ValueError: If a value is out of its range, the tokenizer has no padding token or, for MLM, no mask token, or
            there are no such views or options of them.
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int = 512
    mlm_probability: float = 0.15
    views: str | ViewFunction = "docsplit"
    seed: int = 0
    views_kwargs: dict[str, Any] | None = None

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
                f"{type(self.tokenizer).__name__} has no mask token, so there is no masked language modeling: "
                "use a tokenizer with one, or train without (mlm_probability=0 here, mlm_weight=0 in the arguments)."
            )
        if self.tokenizer.pad_token_id is None:
            raise ValueError(
                f"{type(self.tokenizer).__name__} has no padding token. Set one, for example "
                "tokenizer.pad_token = tokenizer.eos_token."
            )
        # Shared memory, so that workers that outlive an epoch (dataloader_persistent_workers) see the next one.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    @property
    def views_name(self) -> str:
        """The name of the view function."""
        return str(self.views if isinstance(self.views, str) else getattr(self.views, "__name__", self.views))

    @property
    def epoch(self) -> int:
        """The epoch that the random choices of the next batch belong to."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch, from 0, the following batches belong to, here and in running data loader workers."""
        self._epoch.fill_(epoch)

    def for_evaluation(self) -> DataCollatorForDocSplit:
        """A copy that makes the halves of docsplit, whatever the views, and stays at epoch 0."""
        return dataclasses.replace(self, views="docsplit", views_kwargs=None)

    def __call__(self, documents: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Make one batch.

        Args:
            documents: B documents as ``segment_documents`` leaves them: ``input_ids`` without special tokens and
                ``sentence_lengths``. Those of a ``RepeatedStream`` carry its pass, which replaces the collator's epoch.

        Returns:
            ``input_ids`` and ``attention_mask`` of shape ``(2B, L)``; rows i and B+i are the two views of document i.
            ``mlm_input_ids`` and ``mlm_labels``, ``(2B, L)``, unless ``mlm_probability`` is 0.
            ``document_ids``, ``(B,)``: equal for documents with equal tokens.
            ``view_lengths``, ``(2B,)``: tokens of each view before it was cut, special tokens not counted.
            All int64. Of V views per document there are VB rows: i, B+i, 2B+i, ... are those of document i.

        Raises:
            ValueError: If there are no documents, or the view function makes more views of some than of others.
        """
        if not documents:
            raise ValueError("A batch needs at least one document, got none.")
        ids, lengths, views_of = [], [], []
        for document in documents:
            tokens = np.asarray(document["input_ids"], dtype=np.int64)
            sentence_lengths = np.asarray(document["sentence_lengths"], dtype=np.int64)
            ids.append(document_id(tokens))
            rng = self._generator(ids[-1], document.get(EPOCH_KEY))
            views = self.view_function(tokens, sentence_lengths, rng)
            if len(views) != self.view_count:
                raise ValueError(
                    f"The views {self.views_name!r} made {len(views)} views of a document and {self.view_count} of "
                    "another: make as many of every document."
                )
            lengths.append([len(view) for view in views])
            views_of.append([self._row(view, rng) for view in views])
        rows = [row for views in zip(*views_of, strict=True) for row in views]
        padding = self.tokenizer.pad_token_id
        values = {"input_ids": padding, "attention_mask": 0, "mlm_input_ids": padding, "mlm_labels": IGNORED_LABEL}
        columns = {name: [torch.from_numpy(row[name]) for row in rows] for name in rows[0]}
        return {name: pad_sequence(column, True, values[name]) for name, column in columns.items()} | {
            "document_ids": torch.tensor(ids, dtype=torch.int64),
            "view_lengths": torch.tensor(lengths, dtype=torch.int64).T.flatten(),
        }

    def _generator(self, document: int, epoch: int | None) -> np.random.Generator:
        # Philox is keyed by two words: a generator for every (seed, epoch, document) costs nothing.
        epoch = self.epoch if epoch is None else epoch
        key = np.array([(self.seed & 0xFFFFFFFF) << 32 | (epoch & 0xFFFFFFFF), document & (2**64 - 1)], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key))

    def _row(self, view: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        kept = view[: self.max_length - len(self.prefix) - len(self.suffix)]
        tokens = np.concatenate([self.prefix, kept, self.suffix]).astype(np.int64)
        row = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        if self.mlm_probability > 0:
            maskable, mask = ~np.isin(tokens, self.special_ids), self.tokenizer.mask_token_id
            masked = mask_tokens(tokens, maskable, mask, len(self.tokenizer), self.mlm_probability, rng)
            row["mlm_input_ids"], row["mlm_labels"] = masked
        return row


def document_id(tokens: np.ndarray) -> int:
    """A signed 64-bit name of a document by its token ids, int64 ``(n,)``: duplicates get the same."""
    digest = hashlib.blake2b(tokens.tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def mask_tokens(
    tokens: np.ndarray,
    maskable: np.ndarray,
    mask_token_id: int,
    vocab_size: int,
    probability: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Mask tokens as BERT does, and give the masked copy and the labels, -100 where no token was chosen, ``(n,)`` each.

    Each is chosen with ``probability``, if it is ``maskable``; of the chosen, 80 % become the mask token, 10 % a random
    token, and 10 % stay as they are (Devlin et al. 2019, section 3.1).
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
    """The length that the checkpoint states, or up to 512 tokens; logged where the model could read more."""
    positions = max_positions(model)
    stated = (getattr(model.config, "docsplit", None) or {}).get("max_length")
    length = stated or min(512, positions or 512)
    if positions and positions > length:
        logger.warning(
            "%s could read %d tokens, and %d of each view are read: set --max_length (max_length of the collator) up "
            "to %d to read more, at the cost of time and memory.",
            *(type(model).__name__, positions, length, positions),
        )
    return length
