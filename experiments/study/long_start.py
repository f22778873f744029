"""The study's start as a Longformer or a BigBird, which read long documents."""

from __future__ import annotations

from pathlib import Path

from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertForMaskedLM,
    BigBirdConfig,
    LongformerConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

LONGFORMER = "longformer"
BIGBIRD = "big_bird"
LONGFORMER_NAMES = {  # in order: the first match applies
    "cls.predictions.transform.LayerNorm": "lm_head.layer_norm",
    "cls.predictions.transform": "lm_head",
    "cls.predictions": "lm_head",
    "bert.": "longformer.",
}
WINDOW = 128  # tokens, of Longformer
BLOCK_SIZE = 32  # tokens, of BigBird
RANDOM_BLOCKS = 3
SHARED_OPTIONS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "layer_norm_eps",
    "type_vocab_size",
    "pad_token_id",
)


def write_long_start(source: Path, target: Path, kind: str, positions: int, trained_positions: int) -> None:
    """Write the BERT for masked LM in ``source`` as a Longformer or BigBird with the same weights, except for two.

    As Longformer was made from RoBERTa (Beltagy et al. 2020, section 5): the first ``trained_positions`` position
    embeddings are repeated up to ``positions``, and the projections of global attention are copies of the local ones.
    """
    bert = BertForMaskedLM.from_pretrained(source)
    model = AutoModelForMaskedLM.from_config(_config(bert.config, kind, positions))
    weights = bert.state_dict()
    table = weights["bert.embeddings.position_embeddings.weight"][:trained_positions]
    weights["bert.embeddings.position_embeddings.weight"] = table.repeat(-(-positions // len(table)), 1)[:positions]
    given = {_name_in(model, name): value for name, value in weights.items()}
    for name, value in model.state_dict().items():
        local = name.replace("_global", "")
        if name.endswith("position_embeddings.weight"):
            value[-positions:] = given[name]  # Longformer counts from the padding token's number on
        elif local in given:
            value.copy_(given[local])
        elif value.is_floating_point() and "pooler" not in name:
            raise ValueError(f"{type(model).__name__} has weights that no BERT has: {name}.")
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(source, model_max_length=positions).save_pretrained(target)


def _config(bert: PreTrainedConfig, kind: str, positions: int) -> PreTrainedConfig:
    shared_options = {name: getattr(bert, name) for name in SHARED_OPTIONS}
    if kind == LONGFORMER:
        return LongformerConfig(
            **shared_options, attention_window=WINDOW, max_position_embeddings=positions + bert.pad_token_id + 1
        )
    return BigBirdConfig(
        **shared_options, block_size=BLOCK_SIZE, num_random_blocks=RANDOM_BLOCKS, max_position_embeddings=positions
    )


def _name_in(model: PreTrainedModel, name: str) -> str:
    """The model's name of a weight of BERT."""
    if model.config.model_type == BIGBIRD:
        return name
    for old, new in LONGFORMER_NAMES.items():
        name = name.replace(old, new)
    return name
