"""Checkpoints have the files and fields that the parsers of text-embeddings-inference require.

Read out of its source, huggingface/text-embeddings-inference at 0d124dc (July 2026); it was not run here.
"""

import json
from pathlib import Path

from safetensors import safe_open
from tokenizers import Tokenizer

from docsplit_hf import default_checkpoint

NUMBER = (int, float)
# Where the source asks, in which file, and for what, of which type. What it takes as missing is left out.
ASKED = {
    "router/src/lib.rs, struct ModelConfig": (
        "config.json", {"architectures": list, "model_type": str, "max_position_embeddings": int, "pad_token_id": int}
    ),
    "backends/candle/src/models/bert.rs, struct BertConfig": (
        "config.json",
        {
            "vocab_size": int, "hidden_size": int, "num_hidden_layers": int, "num_attention_heads": int,
            "intermediate_size": int, "hidden_act": str, "hidden_dropout_prob": NUMBER, "type_vocab_size": int,
            "max_position_embeddings": int, "initializer_range": NUMBER, "layer_norm_eps": NUMBER, "pad_token_id": int,
        },
    ),
    "router/src/lib.rs, struct PoolConfig": (
        "1_Pooling/config.json", {"pooling_mode_cls_token": bool, "pooling_mode_mean_tokens": bool}
    ),
    "router/src/lib.rs, struct STConfig": ("sentence_bert_config.json", {"max_seq_length": int}),
}  # fmt: skip
# backends/candle/src/models/bert.rs: BertModel::load asks below "" and below "bert."; sizes by names of the config.
EMBEDDINGS = {"word_embeddings": "vocab_size", "position_embeddings": "max_position_embeddings"}
EMBEDDINGS |= {"token_type_embeddings": "type_vocab_size"}
LAYER = {
    "attention.self.query": ("hidden_size", "hidden_size"), "attention.self.key": ("hidden_size", "hidden_size"),
    "attention.self.value": ("hidden_size", "hidden_size"), "attention.output.dense": ("hidden_size", "hidden_size"),
    "intermediate.dense": ("intermediate_size", "hidden_size"), "output.dense": ("hidden_size", "intermediate_size"),
    "attention.output.LayerNorm": ("hidden_size",), "output.LayerNorm": ("hidden_size",),
}  # fmt: skip


def weights_of(config):
    """The name and the shape of each tensor that ``BertModel::load`` gets."""
    size = config["hidden_size"]
    names = {f"bert.embeddings.{name}.weight": [config[rows], size] for name, rows in EMBEDDINGS.items()}
    parts = {"bert.embeddings.LayerNorm": ("hidden_size",)}
    for number in range(config["num_hidden_layers"]):
        parts |= {f"bert.encoder.layer.{number}.{name}": sizes for name, sizes in LAYER.items()}
    for name, sizes in parts.items():
        shape = [config[key] for key in sizes]
        names |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return names


def check(folder):
    """Fail where text-embeddings-inference would."""
    for place, (file, fields) in ASKED.items():
        content = json.loads((folder / file).read_text())
        for name, kind in fields.items():
            value = content[name]
            assert isinstance(value, kind) and isinstance(value, bool) == (kind is bool), (place, name, value)
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "bert" and config["hidden_act"] in ("gelu", "relu", "silu", "tanh")
    assert config.get("position_embedding_type", "absolute") == "absolute"
    # get_backend_model_type in router/src/lib.rs: these are no embeddings
    assert not [name for name in config["architectures"] if name.endswith("Classification")]
    pooling = json.loads((folder / "1_Pooling/config.json").read_text())
    assert pooling["pooling_mode_cls_token"] or pooling["pooling_mode_mean_tokens"]  # Pool::try_from
    length = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    assert 0 < length <= config["max_position_embeddings"]
    Tokenizer.from_file(str(folder / "tokenizer.json"))
    with safe_open(folder / "model.safetensors", "pt") as file:
        found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    assert weights_of(config).items() <= found.items()


def test_shipped_and_trained_checkpoints_can_be_served(make_baseline, tmp_path):
    make_baseline("info_nce").save_model(str(tmp_path))
    for folder in (Path(default_checkpoint()), tmp_path):
        check(folder)
