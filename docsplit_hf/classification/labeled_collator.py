"""DataCollatorForLabeledExamples: texts, or pairs of texts, with their labels into padded batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..text.characters import replace_lone_surrogates
from ..text.tokenization import WINDOW, count_tokens, input_beginnings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class DataCollatorForLabeledExamples:
    """Tokenizes and pads examples as ``load_labeled_examples`` gives them.

    Args:
        tokenizer: The tokenizer.
        max_length: The longest input in tokens, special tokens included. What is longer is cut.
        num_labels: For several labels per text, how many there are; None for one label per text.

    Example:

        >>> from docsplit_hf.models.small_bert import train_small_bert_tokenizer
        >>> tokenizer = train_small_bert_tokenizer(["a small text"], vocab_size=40)
        >>> collator = DataCollatorForLabeledExamples(tokenizer, max_length=8)
        >>> batch = collator([{"text": "a small text", "label": 1}, {"text": "small", "label": 0}])
        >>> batch["input_ids"].shape, batch["labels"]
        (torch.Size([2, 5]), tensor([1, 0]))
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    num_labels: int | None = None

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Make a batch of rows with ``text`` and ``label``, and maybe ``text_pair``.

        Returns:
            ``input_ids`` and ``attention_mask`` of shape ``(B, L)``, padded on the right, ``token_type_ids`` where the
            tokenizer has them, ``labels``: int64 ``(B,)``, or float32 ``(B, C)`` of 0 and 1, and ``token_counts``:
            int64 ``(B, 2)``, the tokens of each row that were cut, and all of them, special tokens not counted. Those
            of a text of more than 65,536 characters are estimated by its beginning.
        """
        in_pairs = "text_pair" in examples[0]
        inputs = [
            (replace_lone_surrogates(row["text"]), replace_lone_surrogates(row["text_pair"]) if in_pairs else None)
            for row in examples
        ]
        beginnings = list(input_beginnings(inputs, self.max_length, self.tokenizer))
        texts, pairs = zip(*beginnings, strict=True)
        batch = self.tokenizer(
            list(texts),
            list(pairs) if in_pairs else None,
            truncation=True,
            max_length=self.max_length,
            padding=True,
            padding_side="right",
            return_attention_mask=True,
            return_tensors="pt",
        )
        names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch]
        labels = [example["label"] for example in examples]
        lengths = batch["attention_mask"].sum(1)
        kept = lengths - self.tokenizer.num_special_tokens_to_add(pair=in_pairs)
        total = kept.clone()
        for row in (lengths >= self.max_length).nonzero()[:, 0].tolist():  # the others were not cut
            total[row] = sum(map(self._count, inputs[row], beginnings[row]))
        counts = torch.stack([total - kept, total], dim=1)
        return {**{name: batch[name] for name in names}, "labels": self._labels(labels), "token_counts": counts}

    def _count(self, text: str | None, beginning: str | None) -> int:
        if not text:
            return 0
        read = text if len(text) <= WINDOW else beginning
        return round(count_tokens(read, self.tokenizer, None) * len(text) / len(read))

    def _labels(self, labels: list[Any]) -> torch.Tensor:
        if self.num_labels is None:
            return torch.tensor(labels)
        multi_hot = torch.zeros(len(labels), self.num_labels)
        for row, numbers in zip(multi_hot, labels, strict=True):
            row[list(numbers)] = 1
        return multi_hot
