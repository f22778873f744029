"""Segmented and tokenized documents, as tables and streams."""

import logging

import numpy as np
import pytest
from datasets import Dataset, IterableDataset
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf import segment_documents
from docsplit_hf.pretraining.views import docsplit
from docsplit_hf.reading.characters import replace_lone_surrogates
from docsplit_hf.reading.segmentation import segment_documents as segment_documents_module
from docsplit_hf.reading.segmentation.segment_documents import _tokenize, default_processes
from docsplit_hf.reading.segmentation.sentences import get_segmenter

TEXTS = [
    "One is here. Two is there.",
    "Only one.",
    "   ",
    "First of three.\nSecond!\n\nThird?",
    None,
    "\u200b\u200b",
]


def test_columns_sentence_lengths_and_dropped_rows(tokenizer, caplog):
    dataset = Dataset.from_dict({"text": TEXTS, "label": list(range(6)), "id": list("abcdef")})
    documents = segment_documents(dataset, tokenizer)
    assert sorted(documents.column_names) == ["id", "input_ids", "label", "sentence_lengths"]
    assert documents["id"][:] == ["a", "d"]
    assert [len(lengths) for lengths in documents["sentence_lengths"]] == [2, 3]
    for row, text in zip(documents, (TEXTS[0], TEXTS[3]), strict=True):
        assert row["input_ids"] == tokenizer(text, add_special_tokens=False)["input_ids"]
        assert sum(row["sentence_lengths"]) == len(row["input_ids"])
    assert "kept 2. Dropped 4: 1 not a string, 2 empty, 1 single sentence" in caplog.text


def test_sentences_are_cut_where_they_end(tokenizer):
    document = segment_documents(Dataset.from_dict({"text": TEXTS[3:4]}), tokenizer)[0]
    expected = [tokenizer(line, add_special_tokens=False)["input_ids"] for line in TEXTS[3].split("\n") if line]
    assert document["sentence_lengths"] == [len(ids) for ids in expected]
    assert document["input_ids"] == [i for ids in expected for i in ids]


@pytest.mark.parametrize("source", ["table", "stream", "stream without features"])
def test_a_table_and_a_stream_give_the_same_documents(tokenizer, texts, source, caplog):
    rows = [{"text": text, "number": i} for i, text in enumerate([*texts, *TEXTS])]
    dataset = Dataset.from_list(rows)
    if source == "stream":
        dataset = dataset.to_iterable_dataset(num_shards=3)
    elif source == "stream without features":
        dataset = IterableDataset.from_generator(lambda: iter(rows))
    with caplog.at_level(logging.INFO, logger="docsplit_hf"):
        documents = list(segment_documents(dataset, tokenizer))
    assert [row["number"] for row in documents] == [*range(len(texts)), len(texts), len(texts) + 3]
    expected = segment_documents(Dataset.from_list(rows), tokenizer)
    assert [row["input_ids"] for row in documents] == expected["input_ids"][:]


def test_a_stream_logs_its_drops_as_it_goes(tokenizer, caplog):
    stream = Dataset.from_dict({"text": TEXTS * 50}).to_iterable_dataset()
    assert len(list(segment_documents(stream, tokenizer))) == 100
    assert "Segmented 100 documents" in caplog.text and "Segmented 200 documents" in caplog.text


def test_several_processes_and_the_cache_give_the_same_documents(tokenizer, texts, tmp_path):
    Dataset.from_dict({"text": texts}).to_parquet(tmp_path / "texts.parquet")

    def segmented(num_proc, cache="cache"):
        dataset = Dataset.from_parquet(str(tmp_path / "texts.parquet"), cache_dir=str(tmp_path / cache))
        return segment_documents(dataset, tokenizer, num_proc=num_proc)

    in_one_process = segmented(None)
    in_two = segmented(2, "another cache")
    again = segmented(None)
    assert (len(in_one_process.cache_files), len(in_two.cache_files)) == (1, 2)
    assert in_one_process.to_dict() == in_two.to_dict()
    assert in_one_process._fingerprint == in_two._fingerprint
    assert again.cache_files == in_one_process.cache_files == segmented(2).cache_files == segmented(1).cache_files


def test_many_documents_are_segmented_in_several_processes_by_default(tokenizer, texts, tmp_path, monkeypatch):
    Dataset.from_dict({"text": texts}).to_parquet(tmp_path / "texts.parquet")
    asked = []

    def two(documents, cores):
        asked.append(documents)
        return 2

    monkeypatch.setattr(segment_documents_module, "default_processes", two)
    dataset = Dataset.from_parquet(str(tmp_path / "texts.parquet"), cache_dir=str(tmp_path / "cache"))
    assert len(segment_documents(dataset, tokenizer).cache_files) == 2
    assert asked == [len(texts)]
    seen = []

    def lines(text):
        seen.append(text)
        return text.splitlines(keepends=True)

    # A function may use what a forked process cannot, such as a GPU.
    segment_documents(Dataset.from_dict({"text": texts}), tokenizer, segmenter=lines, single_sentence="dropout_pair")
    assert len(seen) == len(texts) and asked == [len(texts)]


@pytest.mark.parametrize("documents, cores, processes", [
    (0, 8, 1), (400, 8, 1), (500, 8, 2), (500, 1, 1), (4_000, 8, 6), (4_000, 4, 4), (100_000, 16, 16),
])  # fmt: skip
def test_more_documents_are_segmented_in_more_processes(documents, cores, processes):
    assert default_processes(documents, cores) == processes


def test_one_sentence_documents_can_stay(tokenizer):
    dataset = Dataset.from_dict({"text": TEXTS})
    kept = segment_documents(dataset, tokenizer, single_sentence="dropout_pair")
    assert [len(lengths) for lengths in kept["sentence_lengths"]] == [2, 1, 3]


def test_a_function_as_segmenter(tokenizer):
    def halves(text):
        return [text[: len(text) // 2], text[len(text) // 2 :]]

    document = segment_documents(Dataset.from_dict({"text": ["abc def ghi jkl mno"]}), tokenizer, segmenter=halves)[0]
    assert len(document["sentence_lengths"]) == 2


@given(words=st.lists(st.text("abcdefghijklmno", min_size=1, max_size=9), min_size=2, max_size=40), seed=st.integers(0))
def test_halves_of_words_are_whole_words_in_their_order(tokenizer, words, seed):
    sentences = get_segmenter("whitespace")(" ".join(words))
    tokens, lengths = _tokenize([sentences], tokenizer)[0]
    places = np.arange(len(tokens))
    word_of = np.repeat(np.arange(len(words)), lengths)
    first, second = docsplit(places, np.array(lengths), np.random.default_rng(seed))
    assert sorted([*first, *second]) == places.tolist()
    assert (np.diff(first) > 0).all() and (np.diff(second) > 0).all()
    assert not set(word_of[first]) & set(word_of[second])


def test_slow_tokenizers_give_the_same_tokens(tokenizer, monkeypatch):
    fast = _tokenize([["One is here. ", "Two is there."]], tokenizer)
    monkeypatch.setattr(type(tokenizer), "is_fast", False)
    assert _tokenize([["One is here. ", "Two is there."]], tokenizer) == fast


@given(sentences=st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_sentence_lengths_always_sum_to_the_tokens(tokenizer, sentences):
    sentences = [replace_lone_surrogates(sentence) for sentence in sentences]
    tokens, lengths = _tokenize([sentences], tokenizer)[0]
    assert sum(lengths) == len(tokens)
    assert len(lengths) <= len(sentences) and all(length > 0 for length in lengths)


def test_lone_surrogates_are_replaced_and_pairs_of_them_are_kept():
    assert replace_lone_surrogates("a\ud800b\udc00") == "a\ufffdb\ufffd"
    assert replace_lone_surrogates("ok \U0001f600") == "ok \U0001f600"


def test_windows_of_a_long_document_give_the_same_tokens(tokenizer, texts):
    sentences = [f"{sentence}. " for text in texts * 8 for sentence in text.split(". ")]
    assert sum(map(len, sentences)) > 2**16
    ids, lengths = _tokenize([sentences], tokenizer)[0]
    parts = tokenizer(sentences, add_special_tokens=False)["input_ids"]
    assert ids == [i for part in parts for i in part] and lengths == [len(part) for part in parts]
    assert _tokenize([sentences, ["A river. "], []], tokenizer)[1:] == _tokenize([["A river. "], []], tokenizer)
