import pytest
from transformers import AutoConfig, AutoModel

from docsplit_hf.models.portable.run_encoder import check_max_length, max_positions


@pytest.mark.parametrize(
    "architecture, rows, positions",
    [("bert", 512, 512), ("roberta", 514, 512), ("mpnet", 514, 512), ("longformer", 130, 128), ("roformer", 99, 99)],
)
def test_positions(architecture, rows, positions):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    sizes |= {"vocab_size": 9, "max_position_embeddings": rows, "pad_token_id": 1 if rows % 10 in (4, 0) else 0}
    model = AutoModel.from_config(AutoConfig.for_model(architecture, **sizes))
    assert max_positions(model) == positions
    assert check_max_length(positions, model) == positions
    with pytest.raises(ValueError, match=f"max_length={positions + 1} is more than the {positions} positions"):
        check_max_length(positions + 1, model)
