"""What a training step costs, against what torch counts."""

import dataclasses

import pytest


@pytest.mark.parametrize("lengths", [(64, 64, 64, 64), (10, 20, 30, 40)])
def test_the_operations_are_those_that_a_step_takes(generator, tiny_config, lengths):
    """Counted by torch while a step runs, each row by itself, as without padding."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import BertForMaskedLM

    overrides = {name: value for name, value in tiny_config.to_diff_dict().items() if name != "model_type"}
    shape = generator.training_cost.encoder_shape("bert", overrides)
    model = BertForMaskedLM._from_config(tiny_config, attn_implementation="eager")
    counter = FlopCounterMode(display=False)
    with counter:
        for length in lengths:
            model(input_ids=torch.ones(1, length, dtype=torch.int64)).logits.sum().backward()
    # The two views and their masked copies are read; here each row once, and the head runs for every token.
    tokens, squares = sum(lengths), sum(length**2 for length in lengths)
    cost = generator.training_cost.document_cost(shape, tokens, squares, tokens)
    head = cost["head"] / generator.training_cost.MASKED_SHARE
    assert counter.get_total_flops() == pytest.approx((cost["products"] + cost["attention"]) / 2 + head, rel=1e-9)


def test_windows_bound_what_a_token_attends_to(generator):
    modern = generator.training_cost.encoder_shape("modernbert")
    assert [w is None for w in modern.windows] == [number % 3 == 0 for number in range(22)]
    assert set(modern.windows) == {None, 129}
    narrow = dataclasses.replace(modern, windows=(64,))
    cost = generator.training_cost.document_cost
    assert cost(narrow, 100, 5_000, 100)["attention"] == 12 * 768 * 2 * 100 * 64
    assert cost(narrow, 100, 5_000, 300)["attention"] == 3 * cost(narrow, 100, 5_000, 100)["attention"], "padding costs"
