from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.encoders.embed_chunks import inference_batches, refuse_non_finite, token_budget_batches


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200), st.none() | st.integers(1, 9), st.booleans())
def test_batches_hold_each_row_once_keep_to_the_limits_and_are_full(lengths, max_tokens, max_rows, packed):
    batches = token_budget_batches(lengths, max_tokens, max_rows, packed)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))

    def fits(batch):
        in_batch = [lengths[row] for row in batch]
        tokens = sum(in_batch) if packed else max(in_batch) * len(batch)
        return tokens <= max_tokens and (max_rows is None or len(batch) <= max_rows)

    assert all(len(batch) == 1 or fits(batch) for batch in batches)
    assert not any(fits([*batch, following[0]]) for batch, following in pairwise(batches))  # the longest first


@pytest.mark.parametrize(("max_tokens", "max_rows", "named"), [(0, None, "max_tokens_per_batch"), (9, 0, "batch_size")])
def test_a_limit_of_zero_is_refused(max_tokens, max_rows, named):
    with pytest.raises(ValueError, match=f"{named} must be at least 1, got 0"):
        token_budget_batches([3], max_tokens, max_rows)


def test_rows_are_padded_on_the_right_for_any_tokenizer(tokenizer):
    rows = [{"input_ids": np.array(ids, dtype=np.int32)} for ids in ([7, 8], [7, 8, 9])]
    side = tokenizer.padding_side
    tokenizer.padding_side = "left"
    try:
        ((numbers, batch),) = inference_batches(rows, tokenizer, torch.device("cpu"))
    finally:
        tokenizer.padding_side = side
    assert numbers == [1, 0]
    assert batch["input_ids"].tolist() == [[7, 8, 9], [7, 8, tokenizer.pad_token_id]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (True, r"Its weights are broken, in weight: train it again"),
        (False, r'too large for torch.float32: .*dtype="float32"'),
    ],
)
def test_nan_is_refused_with_the_text_and_the_reason(broken, reason):
    model = torch.nn.Linear(1, 1)
    if broken:
        model.weight.data.fill_(torch.nan)
    values = torch.tensor([[0.0], [torch.inf]])
    with pytest.raises(ValueError, match=f"Linear gives NaN or infinity for text 1 of 2, 'xxx.*{reason}"):
        refuse_non_finite(values, [0, 1], ["a", "x" * 100], model, "Linear")
    refuse_non_finite(values[:1], [0], ["a"], model, "Linear")
