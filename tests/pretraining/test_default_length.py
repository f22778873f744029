import logging

import pytest
from transformers import LongformerConfig

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments
from docsplit_hf.pretraining.default_length import default_max_length


@pytest.fixture
def longformer(tokenizer):
    """Its 1,024 positions stand in a table of 1,026, as in the released one: the first two are padding's."""
    return LongformerConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16,
        attention_window=8, max_position_embeddings=1026, pad_token_id=1,
    )  # fmt: skip


def test_a_model_that_could_read_more_says_what_is_read_and_how_to_read_more(
    longformer, tokenizer, documents, tmp_path, caplog
):
    model = AutoModelForDocSplit.from_config(longformer)
    arguments = ContrastiveTrainingArguments(str(tmp_path), use_cpu=True)
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        trainer = ContrastiveTrainer(model, arguments, documents, processing_class=tokenizer)
    assert trainer.training_collator.max_length == 512
    (said,) = [record.getMessage() for record in caplog.records if record.name.endswith("default_length")]
    assert said.startswith("LongformerForMaskedLM could read 1024 tokens, and 512 of each view are read: set --max_len")


def test_a_model_that_is_read_to_its_end_says_nothing(tiny_config, longformer, caplog):
    longformer.docsplit = {"pooling": "cls", "max_length": 1024}
    with caplog.at_level(logging.WARNING):
        assert default_max_length(AutoModelForDocSplit.from_config(tiny_config)) == 64
        assert default_max_length(AutoModelForDocSplit.from_config(longformer)) == 1024
    assert not caplog.records
