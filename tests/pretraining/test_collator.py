"""Batches of views and masked copies."""

import dataclasses
import hashlib
import logging
import pickle

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from transformers import LongformerConfig

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.pretraining.collator import IGNORED_LABEL, default_max_length, mask_tokens, rows_as_arrays
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


def plain_batch(collator, documents, epoch):
    """A batch as lists, made in plain Python with a new generator for each document."""
    tokenizer = collator.tokenizer
    made = []
    for document in documents:
        tokens = np.array(document["input_ids"], dtype=np.int64)
        digest = hashlib.blake2b(tokens.tobytes(), digest_size=8).digest()
        key = [(collator.seed % 2**32) * 2**32 + epoch, int.from_bytes(digest, "little")]
        rng = np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64)))
        views = collator.view_function(tokens, np.array(document["sentence_lengths"]), rng)
        rows = [plain_row(collator, view.tolist(), rng) for view in views]
        made.append((int.from_bytes(digest, "little", signed=True), views, rows))
    names = ("input_ids", "attention_mask", "mlm_input_ids", "mlm_labels")
    paddings = (tokenizer.pad_token_id, 0, tokenizer.pad_token_id, IGNORED_LABEL)
    in_order = [rows[number] for number in range(collator.view_count) for _, _, rows in made]
    longest = max(len(row["input_ids"]) for row in in_order)
    batch = {}
    for name, padding in zip(names, paddings, strict=True):
        if name in in_order[0]:
            batch[name] = [row[name] + [padding] * (longest - len(row[name])) for row in in_order]
    batch["document_ids"] = [number for number, _, _ in made]
    batch["view_lengths"] = [len(views[number]) for number in range(collator.view_count) for _, views, _ in made]
    return batch


def plain_row(collator, view, rng):
    """The row of a view as lists, in plain Python."""
    tokenizer = collator.tokenizer
    kept = view[: collator.max_length - len(collator.prefix) - len(collator.suffix)]
    row = [*collator.prefix, *kept, *collator.suffix]
    columns = {"input_ids": row, "attention_mask": [1] * len(row)}
    if collator.mlm_probability == 0:
        return columns
    draws = rng.random(len(row)).tolist()
    chosen = []
    for place, token in enumerate(row):
        if draws[place] < collator.mlm_probability and token not in tokenizer.all_special_ids:
            chosen.append(place)
    kinds = rng.random(len(chosen)).tolist()
    random_tokens = iter(rng.integers(len(tokenizer), size=sum(kind >= 0.9 for kind in kinds)).tolist())
    masked = list(row)
    labels = [IGNORED_LABEL] * len(row)
    for place, kind in zip(chosen, kinds, strict=True):
        labels[place] = row[place]
        if kind < 0.8:
            masked[place] = tokenizer.mask_token_id
        elif kind >= 0.9:
            masked[place] = next(random_tokens)
    return columns | {"mlm_input_ids": masked, "mlm_labels": labels}


# Token ids from 0 on, which are the special ones, to some above all of the vocabulary.
SENTENCES = st.lists(st.lists(st.integers(0, 600), min_size=1, max_size=30), min_size=1, max_size=6)
VIEWS_TO_COMPARE = [
    ("docsplit", None), ("docsplit", {"parts": 3}), ("docsplit", {"max_tokens": 7}),
]  # fmt: skip


@given(
    corpus=st.lists(SENTENCES, min_size=1, max_size=5),
    seed=st.integers(-5, 2**33),
    epoch=st.integers(0, 2**32 - 1),
    views=st.sampled_from(VIEWS_TO_COMPARE),
    mlm_probability=st.sampled_from([0.0, 0.15, 0.9]),
    max_length=st.integers(3, 40),
)
def test_a_batch_equals_one_made_in_plain_python(tokenizer, corpus, seed, epoch, views, mlm_probability, max_length):
    rows = []
    for sentences in corpus:
        tokens = [token for sentence in sentences for token in sentence]
        rows.append({"input_ids": tokens, "sentence_lengths": [len(sentence) for sentence in sentences]})
    collator = DataCollatorForDocSplit(tokenizer, max_length, mlm_probability, views[0], seed, views[1])
    collator.set_epoch(epoch)
    expected = plain_batch(collator, rows, epoch)
    arrays = rows_as_arrays(Dataset.from_list(rows))
    for documents in (rows, [arrays[i] for i in range(len(rows))], arrays.__getitems__(range(len(rows)))):
        batch = collator(documents)
        assert list(batch) == list(expected)
        for name, column in expected.items():
            tensor = torch.tensor(column)
            assert batch[name].is_contiguous() and batch[name].dtype == torch.int64 and batch[name].equal(tensor), name


def test_a_view_function_may_change_its_tokens(tokenizer, documents):
    def reversed_in_place(tokens, sentence_lengths, rng):
        tokens[:] = tokens[::-1].copy()
        return tokens, tokens

    collator = DataCollatorForDocSplit(tokenizer, mlm_probability=0, views=reversed_in_place)
    [row] = rows_as_arrays(documents.select([0])).__getitems__([0])
    before = row["input_ids"].tolist()
    assert collator([row])["input_ids"][0, 1:-1].tolist() == before[::-1]
    assert row["input_ids"].tolist() == before


def test_a_data_set_with_a_format_or_a_transform_keeps_it(documents):
    transformed = documents.with_transform(lambda batch: batch)
    for kept in (documents.with_format("torch"), transformed, documents.to_iterable_dataset(), list(documents)):
        assert rows_as_arrays(kept) is kept
    assert documents.format["type"] is None and isinstance(rows_as_arrays(documents)[0]["input_ids"], np.ndarray)


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
SPECIAL = 5
VOCABULARY = 1000


def test_15_percent_are_chosen_and_80_10_10_of_them_become_mask_random_same():
    tokens = np.random.default_rng(1).integers(10, VOCABULARY, size=200_000)
    maskable = np.arange(200_000) % 10 != 0
    tokens[~maskable] = SPECIAL
    tokens.flags.writeable = False  # raises if the masking changes its argument
    is_special = np.arange(SPECIAL + 2) == SPECIAL
    masked, labels = mask_tokens(tokens, np.random.default_rng(0), 0.15, MASK, VOCABULARY, is_special)
    chosen = labels != IGNORED_LABEL
    replacements = masked[chosen]
    assert (labels[chosen] == tokens[chosen]).all() and (masked[~chosen] == tokens[~chosen]).all()
    assert chosen[maskable].mean() == pytest.approx(0.15, abs=0.004) and not chosen[~maskable].any()
    became_mask = replacements == MASK
    same = replacements == tokens[chosen]
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
