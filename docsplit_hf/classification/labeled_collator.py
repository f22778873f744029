"""DataCollatorForLabeledExamples: texts, or pairs of texts, with their labels into padded batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..text.lone_surrogates import replace_lone_surrogates
from ..text.windows import input_beginnings

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
            tokenizer has them, and ``labels``: int64 ``(B,)``, or float32 ``(B, C)`` of 0 and 1.
        """
        in_pairs = "text_pair" in examples[0]
        inputs = (
            (replace_lone_surrogates(row["text"]), replace_lone_surrogates(row["text_pair"]) if in_pairs else None)
            for row in examples
        )
        texts, pairs = zip(*input_beginnings(inputs, self.max_length, self.tokenizer), strict=True)
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
        return {**{name: batch[name] for name in names}, "labels": self._labels(labels)}

    def _labels(self, labels: list[Any]) -> torch.Tensor:
        if self.num_labels is None:
            return torch.tensor(labels)
        multi_hot = torch.zeros(len(labels), self.num_labels)
        for row, numbers in zip(multi_hot, labels, strict=True):
            row[list(numbers)] = 1
        return multi_hot
