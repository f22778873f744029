"""Batches of views and masked copies."""

import dataclasses
import logging
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import LongformerConfig

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.pretraining.collator import IGNORED_LABEL, default_max_length, mask_tokens
from docsplit_hf.pretraining.streaming import EPOCH_KEY


@pytest.mark.parametrize("views, options", [(2, None), (3, {"parts": 3})])
def test_a_batch_has_its_shapes_and_the_views_as_rows(documents, tokenizer, views, options):
    collator = DataCollatorForDocSplit(tokenizer, views_kwargs=options)
    batch = collator([documents[i] for i in range(5)])
    length = batch["input_ids"].shape[1]
    expected = {name: (5 * views, length) for name in ("input_ids", "attention_mask", "mlm_input_ids", "mlm_labels")}
    expected |= {"document_ids": (5,), "view_lengths": (5 * views,)}
    assert {name: tuple(tensor.shape) for name, tensor in batch.items()} == expected
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())
    assert length == batch["attention_mask"].sum(1).max() == batch["view_lengths"].max() + 2
    assert collator.view_count == views and collator.for_evaluation().view_count == 2
    for i in range(5):
        rows = [batch["input_ids"][row][batch["attention_mask"][row] == 1] for row in range(i, 5 * views, 5)]
        assert all(row[0] == tokenizer.cls_token_id and row[-1] == tokenizer.sep_token_id for row in rows)
        assert sorted(torch.cat([row[1:-1] for row in rows]).tolist()) == sorted(documents[i]["input_ids"])
    without = DataCollatorForDocSplit(tokenizer, mlm_probability=0)([documents[0]])
    assert set(without) == set(batch) - {"mlm_input_ids", "mlm_labels"}


def test_unequal_numbers_of_views_are_refused(documents, tokenizer):
    def uneven(tokens, sentence_lengths, rng):
        return [tokens] * min(len(tokens), 5)

    with pytest.raises(ValueError, match="'uneven' made 5 views of a document and 2 of another"):
        DataCollatorForDocSplit(tokenizer, views=uneven)(list(documents))


def test_special_tokens_and_padding_are_never_masked(tokenizer, documents):
    collator = DataCollatorForDocSplit(tokenizer, mlm_probability=0.99)
    batch = collator(list(documents))
    special = torch.isin(batch["input_ids"], torch.tensor(tokenizer.all_special_ids))
    chosen = batch["mlm_labels"] != IGNORED_LABEL
    assert not (special & chosen).any()
    assert chosen[~special].float().mean() > 0.97
    assert (batch["mlm_labels"][chosen] == batch["input_ids"][chosen]).all()
    assert (batch["mlm_input_ids"][~chosen] == batch["input_ids"][~chosen]).all()


def rows_of(batch, i):
    """The tokens and masks of document i's two views, without padding."""
    rows = [i, len(batch["document_ids"]) + i]
    keep = batch["attention_mask"][rows] == 1
    return [batch[name][rows][keep].tolist() for name in ("input_ids", "mlm_input_ids", "mlm_labels")]


def test_a_document_gets_the_same_views_and_mask_in_any_batch_and_new_ones_in_each_epoch(collator, documents):
    alone = rows_of(collator([documents[3]]), 0)
    assert rows_of(collator([documents[7], documents[3], documents[1]]), 1) == alone
    collator.set_epoch(1)
    assert rows_of(collator([documents[3]]), 0) != alone
    assert rows_of(collator([{**documents[3], EPOCH_KEY: 0, "epoch": "a column of the user"}]), 0) == alone
    collator.set_epoch(0)
    assert rows_of(collator([documents[3]]), 0) == alone
    assert rows_of(pickle.loads(pickle.dumps(collator))([documents[3]]), 0) == alone
    assert rows_of(dataclasses.replace(collator, seed=1)([documents[3]]), 0) != alone
    short = dataclasses.replace(collator, max_length=8)(list(documents))
    assert short["input_ids"].shape[1] == 8
    assert short["view_lengths"].sum() == sum(len(ids) for ids in documents["input_ids"])


def test_persistent_workers_get_the_next_epoch(collator, documents):
    def epoch(loader, number):
        collator.set_epoch(number)
        return [batch["mlm_input_ids"].tolist() for batch in loader]

    alone = DataLoader(documents, batch_size=8, collate_fn=collator)
    loader = DataLoader(documents, batch_size=8, collate_fn=collator, num_workers=2, persistent_workers=True)
    expected = [epoch(alone, 0), epoch(alone, 1)]
    assert [epoch(loader, 0), epoch(loader, 1)] == expected
    assert expected[0] != expected[1]


def test_padding_is_on_the_right_with_any_tokenizer(tokenizer, documents):
    tokenizer = pickle.loads(pickle.dumps(tokenizer))
    tokenizer.padding_side = "left"
    batch = DataCollatorForDocSplit(tokenizer)(list(documents))
    assert (batch["attention_mask"].diff(dim=1) <= 0).all()


MASK = 4
VOCABULARY = 1000


def test_15_percent_are_chosen_and_80_10_10_of_them_become_mask_random_same():
    tokens = np.random.default_rng(1).integers(10, VOCABULARY, size=200_000)
    maskable = np.arange(200_000) % 10 != 0
    tokens.flags.writeable = False  # raises if mask_tokens changes its argument
    masked, labels = mask_tokens(tokens, maskable, MASK, VOCABULARY, 0.15, np.random.default_rng(0))
    chosen = labels != IGNORED_LABEL
    assert (masked[~chosen] == tokens[~chosen]).all() and (labels[chosen] == tokens[chosen]).all()
    assert chosen[maskable].mean() == pytest.approx(0.15, abs=0.004) and not chosen[~maskable].any()
    became_mask = masked[chosen] == MASK
    same = masked[chosen] == tokens[chosen]
    assert became_mask.mean() == pytest.approx(0.8, abs=0.01)
    assert same.mean() == pytest.approx(0.1, abs=0.01)
    assert (~became_mask & ~same).mean() == pytest.approx(0.1, abs=0.01)


@pytest.fixture
def longformer(tokenizer):
    """A model of 1,024 positions with a table of 1,026, like the released one: the first two are for padding."""
    return LongformerConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16,
        attention_window=8, max_position_embeddings=1026, pad_token_id=1,
    )  # fmt: skip


def test_a_default_below_the_models_maximum_length_is_logged(longformer, tokenizer, documents, tmp_path, caplog):
    model = AutoModelForDocSplit.from_config(longformer)
    arguments = ContrastiveTrainingArguments(str(tmp_path), use_cpu=True)
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        trainer = ContrastiveTrainer(model, arguments, documents, processing_class=tokenizer)
    assert trainer.training_collator.max_length == 512
    [message] = [record.getMessage() for record in caplog.records if record.name.endswith("pretraining.collator")]
    assert message.startswith(
        "LongformerForMaskedLM could read 1024 tokens, and 512 of each view are read: set --max_len"
    )


def test_the_models_maximum_length_as_default_logs_nothing(tiny_config, longformer, caplog):
    longformer.docsplit = {"pooling": "cls", "max_length": 1024}
    with caplog.at_level(logging.WARNING):
        assert default_max_length(AutoModelForDocSplit.from_config(tiny_config)) == 64
        assert default_max_length(AutoModelForDocSplit.from_config(longformer)) == 1024
    assert not caplog.records
