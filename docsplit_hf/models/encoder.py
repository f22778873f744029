"""DocumentEncoder: from a checkpoint to embeddings, for documents of any length."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..data.documents import replace_lone_surrogates
from ..data.paths import refuse_mistyped_path
from ..data.special_tokens import special_tokens_around
from .batching import TOKENIZER_BATCH, check_texts, inference_batches, inference_mode
from .configuration import load_config
from .packing import is_packed, run_encoder, use_packing
from .pooling import check_pooling, pool
from .positions import check_max_length, max_positions
from .settings import checkpoint_settings, read_json

logger = logging.getLogger(__name__)


class DocumentEncoder:
    """Embeds documents with an encoder of transformers.

    Args:
        model: The encoder, without a head.
        tokenizer: Its tokenizer.
        pooling: ``"cls"``, ``"mean"``, ``"max"`` or ``"last"``.
        max_length: The longest input in tokens, special tokens included. None: as many as the model has positions.
        packing: Whether the model runs without padding: ``"auto"``, where it gives the same; ``"on"``, an error where
            it does not; ``"off"``. See ``docsplit_hf.models.packing.use_packing``.

    Raises:
        ValueError: If there is no such pooling or packing, or the model has fewer positions.

    Example:

        >>> from transformers import BertModel
        >>> from docsplit_hf.models.small_bert import small_bert_config, train_small_bert_tokenizer
        >>> tokenizer = train_small_bert_tokenizer(["a small text"], vocab_size=40)
        >>> encoder = DocumentEncoder(BertModel(small_bert_config(tokenizer)), tokenizer)
        >>> encoder.encode(["a small text", "text"], show_progress=False).shape
        (2, 128)
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pooling: str = "cls",
        max_length: int | None = None,
        packing: str = "auto",
    ) -> None:
        self.model = model.eval()
        use_packing(model, packing)
        self.tokenizer = tokenizer
        self.pooling = check_pooling(pooling)
        self.prefix, self.suffix = special_tokens_around(tokenizer)
        if max_length is None:
            max_length = max_positions(model) or tokenizer.model_max_length
        self.max_length = check_max_length(max_length, model)
        if self.max_length <= len(self.prefix) + len(self.suffix):
            raise ValueError(f"max_length={max_length} leaves no room for text beside the special tokens.")

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        pooling: str | None = None,
        max_length: int | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | str = "float32",
        revision: str | None = None,
        packing: str = "auto",
    ) -> DocumentEncoder:
        """Load an encoder from the Hub or a folder: a DocSplit checkpoint, a LoRA adapter, or any other encoder.

        Pooling and maximum length are the checkpoint's own: DocSplit's, or those of sentence-transformers. Where it
        says nothing, the pooling is ``"cls"``, which is logged.

        Args:
            name: A model on the Hub or a folder.
            pooling: Overrides the checkpoint's.
            max_length: Overrides the checkpoint's.
            device: Where to run. None: a GPU if there is one.
            dtype: Of the weights.
            revision: The branch, tag or commit on the Hub.
            packing: As for the class.

        Returns:
            The encoder.

        Raises:
            ValueError: If the checkpoint's pooling is none that is known here.
            OSError: If there is no model of that name.
        """
        refuse_mistyped_path(name)
        is_adapter = read_json(name, "adapter_config.json", revision) is not None
        model = (_load_adapter if is_adapter else _load_stock)(name, dtype, revision).base_model
        settings = checkpoint_settings(name, None if is_adapter else model.config, revision)
        if pooling is None and "pooling" not in settings:
            logger.warning("%s does not say how it pools: taking the first token ('cls').", name)
        if device is None:
            device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
        return cls(
            model.to(device),
            AutoTokenizer.from_pretrained(name, revision=revision),
            pooling=pooling or settings.get("pooling", "cls"),
            max_length=max_length or settings.get("max_length"),
            packing=packing,
        )

    @property
    def dimension(self) -> int:
        """The number of dimensions of an embedding."""
        return self.model.config.hidden_size

    def encode(
        self,
        texts: Sequence[str],
        batch_size: int | None = None,
        show_progress: bool = True,
        normalize: bool = True,
        long_documents: Literal["truncate", "average"] = "truncate",
        max_tokens_per_batch: int | None = None,
        bf16: bool = False,
    ) -> np.ndarray:
        """Embed texts.

        Args:
            texts: N texts.
            batch_size: The most texts in one forward. Texts of similar length share one; the result is in the order of
                the texts. None: as many as the tokens allow.
            show_progress: Whether to show a progress bar.
            normalize: Whether to give embeddings of norm 1, as cosine similarity wants them.
            long_documents: What becomes of texts longer than ``max_length``. ``"truncate"``: the beginning is
                embedded, and how much was cut is logged. ``"average"``: each is cut into pieces that fit, and the
                pieces' normalized embeddings are averaged, weighted by their tokens.
            max_tokens_per_batch: The most tokens in one forward, padding included where there is any. None: 2,048 on a
                CPU, 32,768 elsewhere.
            bf16: Whether to compute in bfloat16 (autocast), more than twice as fast where the hardware has it. The
                cosine to the float32 embedding stays above 0.9999.

        Returns:
            float32 of shape ``(N, D)``.

        Raises:
            TypeError: If ``texts`` is one string, or a text is not a string.
            ValueError: If ``long_documents`` is neither of the two.
        """
        check_texts(texts)
        if long_documents not in ("truncate", "average"):
            raise ValueError(f"long_documents must be 'truncate' or 'average', got {long_documents!r}.")
        pieces, owners = self._pieces(list(texts), long_documents)
        embeddings = self._embed(pieces, max_tokens_per_batch, batch_size, bf16, show_progress)
        if long_documents == "average" and len(pieces) > len(texts):
            weights = torch.tensor([len(piece) for piece in pieces])[:, None]
            weighted = torch.nn.functional.normalize(embeddings) * weights
            total = torch.zeros(len(texts), self.dimension).index_add_(0, torch.tensor(owners), weighted)
            single = torch.bincount(torch.tensor(owners), minlength=len(texts)) == 1
            first = torch.searchsorted(torch.tensor(owners), torch.arange(len(texts)))
            embeddings = torch.where(single[:, None], embeddings[first], torch.nn.functional.normalize(total))
        return (torch.nn.functional.normalize(embeddings) if normalize else embeddings).numpy()

    def _pieces(self, texts: list[str], long_documents: str) -> tuple[list[list[int]], list[int]]:
        """Token ids of what is to be embedded, and for each the number of its text."""
        room = self.max_length - len(self.prefix) - len(self.suffix)
        pieces, owners, long, total, cut = [], [], 0, 0, 0
        for start in range(0, len(texts), TOKENIZER_BATCH):
            batch = texts[start : start + TOKENIZER_BATCH]
            valid = [replace_lone_surrogates(text) for text in batch]
            encoding = self.tokenizer(valid, add_special_tokens=False, return_attention_mask=False, verbose=False)
            for i, ids in enumerate(encoding["input_ids"], start):
                total, long = total + len(ids), long + (len(ids) > room)
                starts = [0] if long_documents == "truncate" else range(0, max(len(ids), 1), room)
                cut += max(len(ids) - room, 0) if long_documents == "truncate" else 0
                pieces += [self.prefix + ids[s : s + room] + self.suffix for s in starts]
                owners += [i] * len(starts)
        if cut:
            logger.warning(
                "%d of %d texts are longer than %d tokens: %.1f %% of all tokens were cut off. "
                "long_documents='average' reads them whole.",
                *(long, len(texts), self.max_length, 100 * cut / total),
            )
        return pieces, owners

    def _embed(
        self, pieces: list[list[int]], max_tokens: int | None, max_rows: int | None, bf16: bool, show_progress: bool
    ) -> torch.Tensor:
        """float32 of shape (pieces, D) on the CPU."""
        embeddings = torch.empty(len(pieces), self.dimension)
        rows = [{"input_ids": np.array(piece, dtype=np.int32)} for piece in pieces]
        device = self.model.device
        with inference_mode(device, bf16):
            limits = (max_tokens, max_rows, is_packed(self.model.base_model), show_progress)
            for numbers, batch in inference_batches(rows, self.tokenizer, device, *limits):
                states = run_encoder(self.model, **batch).last_hidden_state
                embeddings[numbers] = pool(states, batch["attention_mask"], self.pooling).float().cpu()
        return embeddings


def _load_stock(
    name: str, dtype: torch.dtype | str, revision: str | None, architecture: str | None = None
) -> PreTrainedModel:
    """The class that the checkpoint was saved from, so that all its weights have their place, or the one asked for."""
    config = load_config(name, revision=revision)
    architecture = architecture or next(iter(config.architectures or []), "")
    stock = AutoModelForMaskedLM if architecture.endswith("ForMaskedLM") else AutoModel
    return stock.from_pretrained(name, config=config, dtype=dtype, revision=revision)


def _load_adapter(name: str, dtype: torch.dtype | str, revision: str | None) -> PreTrainedModel:
    """The adapter's base model, with the adapter merged into it."""
    from peft import PeftConfig, PeftModel

    adapter = PeftConfig.from_pretrained(name, revision=revision)
    trained_on = (adapter.auto_mapping or {}).get("base_model_class")
    base = _load_stock(adapter.base_model_name_or_path, dtype, adapter.revision, trained_on)
    model = PeftModel.from_pretrained(base, name, revision=revision)
    misplaced = model.load_adapter(name, "default", revision=revision).unexpected_keys
    if misplaced:
        raise ValueError(
            f"The adapter {name} does not fit its base model {adapter.base_model_name_or_path}: {misplaced[0]} has no "
            f"place in {type(base).__name__}. Load it with peft onto the model that it was trained on, and merge it."
        )
    return model.merge_and_unload()
