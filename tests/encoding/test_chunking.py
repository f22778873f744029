"""Strategies for long texts: the chunks of each, and equal results for texts of one chunk."""

import re

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import BertModel

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding import chunking as long_documents
from docsplit_hf.encoding import embed_chunks
from docsplit_hf.encoding.chunking import SINGLE_VECTOR, ChunkSettings, passage_bounds, read_chunks
from docsplit_hf.reading import tokenization

PROMPT = "Represent the text:"
RIVERS = "The river feeds the valley. "


@pytest.fixture
def encoder(tiny_config, tokenizer):
    torch.manual_seed(0)
    return DocumentEncoder(BertModel(tiny_config), tokenizer, pooling="mean")


@pytest.fixture(scope="module")
def chunk_settings(tokenizer):
    return ChunkSettings.of(tokenizer, 20)


@pytest.fixture(scope="module")
def long_text(texts):
    return " ".join(texts * 12) + " 河流滋养山谷。" * 2000  # 100,000 characters


def text_of(chunk, tokenizer):
    return tokenizer.decode(chunk.input_ids, skip_special_tokens=True)


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("prompt", ["", PROMPT])
def test_short_texts_have_equal_embeddings_under_all_strategies(encoder, tokenizer, texts, prompt):
    encoder = DocumentEncoder(encoder.model, tokenizer, "mean", prompt=prompt, include_prompt=False)
    room = 62 - len(ids_of(tokenizer, prompt))
    short = [text for text in texts if len(ids_of(tokenizer, text)) <= room] + ["", " a garden "]
    expected = encoder.encode(short, show_progress=False)
    for strategy in SINGLE_VECTOR:
        assert (encoder.encode(short, show_progress=False, long_documents=strategy) == expected).all(), strategy
    passages = encoder.encode_passages(short, show_progress=False, passage_length=64)
    assert (passages.embeddings == expected).all() and (passages.counts == 1).all()
    assert passages.spans.tolist() == [[0, len(text)] for text in short]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_passages_cover_every_token_in_order_with_their_spans(chunk_settings, tokenizer, data):
    words = st.sampled_from(["river", "garden", "valley.", "stone!", "山谷。", "\n", "  ", "a", "\ud800", ""])
    text = data.draw(st.lists(words, max_size=120).map(" ".join))
    found = list(read_chunks([text, "a garden"], chunk_settings, "passages"))
    own = [chunk for chunk in found if chunk.text == 0]
    inner = [
        chunk.input_ids[len(chunk_settings.prefix) : len(chunk.input_ids) - len(chunk_settings.suffix)] for chunk in own
    ]
    valid = text.replace("\ud800", "\ufffd")
    assert np.concatenate(inner).tolist() == ids_of(tokenizer, valid)
    assert all(len(chunk.input_ids) <= 20 for chunk in own)
    assert [chunk.weight == 0 for chunk in own] == [len(own) == 1] * len(own)
    assert found[-1].weight == 0
    if len(own) > 1:
        assert all(ids_of(tokenizer, valid[p.start : p.end]) == ids.tolist() for p, ids in zip(own, inner, strict=True))


@pytest.mark.parametrize("prompt", ["", PROMPT])
@pytest.mark.parametrize("strategy", ["head_tail", "passages"])
def test_windows_give_the_same_passages_as_the_whole_text(tokenizer, long_text, strategy, prompt, monkeypatch):
    text = "  " + long_text[:12_000].replace("\n", " ")
    chunk_settings = ChunkSettings.of(tokenizer, 40, prompt)
    # No sentence goes on in the next window where every word is one.
    monkeypatch.setattr(long_documents, "split_lines_plain", lambda part: re.findall(r"\s*\S+\s*", part))
    whole = list(read_chunks([text, "a garden"], chunk_settings, strategy, 20))
    for module in (tokenization, long_documents):
        monkeypatch.setattr(module, "WINDOW", 500)
    monkeypatch.setattr(tokenization.windows, "__defaults__", (500,))
    monkeypatch.setattr(tokenization.beginning, "__defaults__", (500,))
    parts = list(read_chunks([text, "a garden"], chunk_settings, strategy, 20))
    assert len(parts) == len(whole)
    for one, other in zip(parts, whole, strict=True):
        assert one.input_ids.tolist() == other.input_ids.tolist()
        assert (one.start, one.end, one.weight == 0) == (other.start, other.end, other.weight == 0)


def test_max_passages_gives_the_first_passages(chunk_settings, long_text, caplog):
    texts = ["a garden", long_text, long_text[:300], long_text]  # two of them have several windows
    characters = sum(len(text) for text in texts)
    read_whole = list(read_chunks(texts, chunk_settings, "passages", None, None))
    for most in (1, 3, 7, 10_000):
        caplog.clear()
        read_capped = list(read_chunks(texts, chunk_settings, "passages", None, most))
        cut = unread = 0
        for text in range(len(texts)):
            whole, capped = ([chunk for chunk in read if chunk.text == text] for read in (read_whole, read_capped))
            assert len(capped) == min(len(whole), most)
            for one, other in zip(capped, whole, strict=False):
                assert one.input_ids.tolist() == other.input_ids.tolist() and (one.start, one.end) == (
                    other.start,
                    other.end,
                )
            read = 1 if len(whole) <= most else capped[-1].end / len(texts[text])
            assert capped[-1].read_fraction == read
            cut += len(whole) > most
            unread += len(texts[text]) - max(chunk.end for chunk in capped)
        said = [record.message for record in caplog.records if "were cut off" in record.message]
        assert len(said) == bool(cut)
        if cut:
            assert said[0].startswith(f"{cut} of 4 texts are longer than {most} passages: ")
            share = 100 * unread / characters
            assert f": {share:.1f} % of all characters were cut off. Without max_passages all of each text" in said[0]


def test_a_capped_text_is_not_tokenized_to_its_end(chunk_settings, long_text, monkeypatch):
    tokenized = []
    original = long_documents.token_ids_and_spans

    def counted(tokenizer, contents):
        tokenized.extend(map(len, contents))
        return original(tokenizer, contents)

    monkeypatch.setattr(long_documents, "token_ids_and_spans", counted)
    text = long_text * 40  # 4 MB
    assert len(list(read_chunks([text], chunk_settings, "passages", None, 5))) == 5
    assert sum(tokenized) < 1_200_000 < len(text)


@pytest.mark.parametrize("prompt", ["", PROMPT])
def test_the_average_weights_passages_by_tokens(encoder, tokenizer, long_text, prompt, monkeypatch):
    encoder = DocumentEncoder(encoder.model, tokenizer, "mean", prompt=prompt, include_prompt=False)
    texts = ["a garden", long_text[:9_000] + long_text[-3_000:], "", RIVERS * 30]
    passages = encoder.encode_passages(texts, show_progress=False)
    chunk_settings = encoder.chunk_settings
    chunks = read_chunks(texts, chunk_settings, "passages")
    weights = np.array([len(chunk.input_ids) - chunk_settings.prompt_length for chunk in chunks])
    sums = np.add.reduceat(passages.embeddings * weights[:, None], np.cumsum([0, *passages.counts[:-1]]))
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    assert encoder.encode(texts, show_progress=False, long_documents="average") == pytest.approx(expected, abs=1e-5)
    sums = expected + passages.embeddings[np.cumsum([0, *passages.counts[:-1]])]  # the first passage counts once more
    whole = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    assert encoder.encode(texts, show_progress=False, long_documents="whole") == pytest.approx(whole, abs=1e-5)
    monkeypatch.setattr(embed_chunks, "GROUP_TOKENS", 1000)
    assert encoder.encode(texts, show_progress=False, long_documents="average") == pytest.approx(expected, abs=1e-5)
    again = encoder.encode_passages(texts, show_progress=False)
    assert again.embeddings == pytest.approx(passages.embeddings, abs=1e-5)
    assert np.array_equal(again.spans, passages.spans) and np.array_equal(again.counts, passages.counts)


def test_a_passage_is_embedded_like_a_text_of_its_own(encoder, texts):
    text = " ".join(texts[:8])
    passages = encoder.encode_passages([text], passage_length=32, show_progress=False)
    alone = encoder.encode([text[start:end] for start, end in passages.spans], show_progress=False)
    assert len(alone) > 5
    assert passages.embeddings == pytest.approx(alone, abs=1e-5)


def test_truncated_embeddings_are_the_first_dimensions(encoder, long_text):
    texts = [long_text, "The river feeds the valley."]
    for options in ({}, {"normalize": False}, {"long_documents": "average"}):
        found = encoder.encode(texts, show_progress=False, truncate_dim=8, **options)
        if "long_documents" not in options:
            whole = encoder.encode(texts, show_progress=False, normalize=False)[:, :8]
            norms = np.linalg.norm(whole, axis=1, keepdims=True)
            assert found == pytest.approx(whole if options else whole / norms, abs=1e-6)
    passages = encoder.encode_passages(texts, show_progress=False, truncate_dim=8)
    assert passages.embeddings[-1] == pytest.approx(found[1], abs=1e-6)
    average = passages.embeddings[:-1].sum(0)  # of nearly equal weights
    assert found[0] @ average / np.linalg.norm(average) == pytest.approx(1, abs=0.01)
    with pytest.raises(ValueError, match="truncate_dim must be from 1 to 32, got 33"):
        encoder.encode(texts, truncate_dim=33)


def test_head_tail_reads_the_first_and_the_last_tokens(chunk_settings, tokenizer, caplog):
    (chunk,) = read_chunks(["river " * 40 + "garden " * 40], chunk_settings, "head_tail")
    words = text_of(chunk, tokenizer)
    assert (words.count("river"), words.count("garden")) == (4, 14)  # a quarter of 18, and the rest
    assert chunk.read_fraction == pytest.approx(18 / len(ids_of(tokenizer, "river " * 40 + "garden " * 40)))
    assert "1 of 1 texts are longer than 20 tokens" in caplog.text


def test_head_tail_ends_with_the_last_token(chunk_settings, tokenizer, texts):
    text = " ".join(texts[:3])
    ids = ids_of(tokenizer, text)
    (chunk,) = read_chunks([text], chunk_settings, "head_tail")
    read = chunk.input_ids[1:-1].tolist()
    assert read == ids[:4] + ids[-14:] and len(ids) > 40


def test_invalid_options_are_refused(encoder, tokenizer):
    with pytest.raises(ValueError, match="'first', 'head_tail', .*, got 'split'"):
        encoder.encode(["a"], long_documents="split")
    with pytest.raises(ValueError, match="'passages' gives a text several embeddings: use encode_passages"):
        encoder.encode(["a"], long_documents="passages")
    with pytest.raises(ValueError, match="passage_length must be from 3 to 64 tokens, got 65"):
        encoder.encode_passages(["a"], passage_length=65)
    with pytest.raises(ValueError, match="passage_length must be from 3 to 64 tokens, got 2"):
        encoder.encode_passages(["a"], passage_length=2)
    with pytest.raises(ValueError, match="passage_length must be from 3 to 64 tokens, got 10.5"):
        encoder.encode_passages(["a"], passage_length=10.5)
    with pytest.raises(ValueError, match="max_passages must be a whole number from 1, got 0"):
        encoder.encode(["a"], long_documents="whole", max_passages=0)
    with pytest.raises(ValueError, match="max_passages=3 has no effect with long_documents='first'.* remove it"):
        encoder.encode(["a"], max_passages=3)


LENGTHS = st.lists(st.integers(1, 30), max_size=30)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([3, 3, 3], [(0, 9)]),
        ([3, 3, 5], [(0, 6), (6, 11)]),
        ([4, 6, 1], [(0, 10), (10, 11)]),
        ([2, 25, 3], [(0, 2), (2, 12), (12, 22), (22, 30)]),
        ([], [(0, 0)]),
    ],
)
def test_sentences_are_taken_until_one_does_not_fit(lengths, expected):
    assert passage_bounds(lengths, 10).tolist() == [list(bounds) for bounds in expected]


@given(lengths=LENGTHS, most=st.integers(1, 40))
def test_passages_cover_the_document_in_order(lengths, most):
    starts, ends = passage_bounds(lengths, most).T
    assert starts[0] == 0 and ends[-1] == sum(lengths) and (starts[1:] == ends[:-1]).all()
    assert ((ends - starts) <= most).all()
    assert (np.diff(ends) > 0).all()


@given(lengths=LENGTHS, most=st.integers(1, 40))
def test_only_a_sentence_that_is_too_long_is_cut(lengths, most):
    sentences = np.cumsum([0, *lengths])
    is_long = {place for start, end in zip(sentences[:-1], sentences[1:], strict=True) if end - start > most
               for place in range(start, end)}  # fmt: skip
    for place in passage_bounds(lengths, most)[:-1, 1]:
        assert place in sentences or place in is_long
