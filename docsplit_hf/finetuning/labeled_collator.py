"""DataCollatorForLabeledExamples: padded batches of labeled texts, or of labeled pairs of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..reading.characters import replace_lone_surrogates
from ..reading.tokenization import WINDOW, count_tokens, input_beginnings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class DataCollatorForLabeledExamples:
    """Tokenize and pad examples from ``load_labeled_examples``.

    Args:
        tokenizer: The tokenizer.
        max_length: The longest input in tokens, including special tokens. Longer inputs are cut.
        num_labels: The number of labels, if a text may have several; None for one label per text.
        prompt: The text that is put before each text.

    Example:

        >>> from docsplit_hf.encoding.small_bert import train_small_bert_tokenizer
        >>> tokenizer = train_small_bert_tokenizer(["a small text"], vocab_size=40)
        >>> collator = DataCollatorForLabeledExamples(tokenizer, max_length=8)
        >>> batch = collator([{"text": "a small text", "label": 1}, {"text": "small", "label": 0}])
        >>> batch["input_ids"].shape, batch["labels"]
        (torch.Size([2, 5]), tensor([1, 0]))
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    num_labels: int | None = None
    prompt: str = ""

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Make a batch.

        Args:
            examples: Rows with ``text``, ``label`` (a number or a list of numbers), and optionally ``text_pair``.

        Returns:
            A dictionary of tensors:

            - ``input_ids``, ``attention_mask``, and ``token_type_ids`` if the tokenizer has them: int64 ``(B, L)``,
              padded on the right.
            - ``labels``: int64 ``(B,)``, or float32 ``(B, C)`` of 0 and 1.
            - ``token_counts``: int64 ``(B, 2)``, the numbers of cut tokens and of all tokens of each row, without
              special tokens. For a text of more than 65,536 characters they are estimated from its beginning.
        """
        in_pairs = "text_pair" in examples[0]
        inputs = []
        for example in examples:
            pair = replace_lone_surrogates(example["text_pair"]) if in_pairs else None
            inputs.append((replace_lone_surrogates(self.prompt + example["text"]), pair))
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
        lengths = batch["attention_mask"].sum(1)
        kept = lengths - self.tokenizer.num_special_tokens_to_add(pair=in_pairs)
        total = kept.clone()
        for row in (lengths >= self.max_length).nonzero()[:, 0].tolist():  # shorter rows were not cut
            total[row] = sum(map(self._count, inputs[row], beginnings[row]))
        tensors = {}
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            if name in batch:
                tensors[name] = batch[name]
        tensors["labels"] = self._labels([example["label"] for example in examples])
        tensors["token_counts"] = torch.stack([total - kept, total], dim=1)
        return tensors

    def _count(self, text: str | None, beginning: str | None) -> int:
        """Number of tokens of a text, estimated from its beginning if it is long; 0 for None."""
        if not text:
            return 0
        counted = text if len(text) <= WINDOW else beginning
        return round(count_tokens(counted, self.tokenizer, None) * len(text) / len(counted))

    def _labels(self, labels: list[int] | list[list[int]]) -> torch.Tensor:
        """Convert labels to a tensor: int64 ``(B,)``, or float32 ``(B, C)`` of 0 and 1."""
        if self.num_labels is None:
            return torch.tensor(labels)
        multi_hot = torch.zeros(len(labels), self.num_labels)
        for row, numbers in zip(multi_hot, labels, strict=True):
            row[list(numbers)] = 1
        return multi_hot
