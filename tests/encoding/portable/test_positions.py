import pytest
from transformers import AutoConfig, AutoModel

from docsplit_hf.encoding.portable.run_encoder import check_max_length, max_positions


@pytest.mark.parametrize(
    "architecture, rows, pad_token_id, positions",
    [
        ("bert", 512, 0, 512),
        ("roberta", 514, 1, 512),
        ("mpnet", 514, 1, 512),
        ("longformer", 130, 1, 128),
        ("roformer", 99, 0, 99),
    ],
)
def test_the_maximum_length_is_the_number_of_usable_positions(architecture, rows, pad_token_id, positions):
    config = AutoConfig.for_model(
        architecture,
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=rows,
        pad_token_id=pad_token_id,
    )
    model = AutoModel.from_config(config)
    assert max_positions(model) == positions
    assert check_max_length(positions, model) == positions
    with pytest.raises(ValueError, match=f"max_length={positions + 1} is more than the {positions} positions"):
        check_max_length(positions + 1, model)
