import threading
from contextvars import ContextVar
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertModel

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding import embed_chunks
from docsplit_hf.encoding.chunking import Chunk
from docsplit_hf.encoding.embed_chunks import (
    inference_batches,
    read_ahead,
    refuse_non_finite,
    token_budget_batches,
    tokens_per_batch,
)
from docsplit_hf.encoding.text_embedder import ChunkAverages, EmbeddingOptions
from docsplit_hf.reading.text_warnings import sum_up_warnings, unlogged

WAIT = 60  # seconds until a test fails that would otherwise wait forever


@given(
    lengths=st.lists(st.integers(1, 50), max_size=60),
    max_tokens=st.integers(1, 200),
    max_rows=st.none() | st.integers(1, 9),
    packed=st.booleans(),
    max_padded=st.none() | st.integers(1, 400),
)
def test_batches_hold_each_row_once_keep_to_the_limits_and_are_full(lengths, max_tokens, max_rows, packed, max_padded):
    batches = token_budget_batches(lengths, max_tokens, max_rows, packed, max_padded)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))

    def fits(batch):
        in_batch = [lengths[row] for row in batch]
        padded = max(in_batch) * len(batch)
        tokens = sum(in_batch) if packed else padded
        has_room = tokens <= max_tokens and (max_padded is None or padded <= max_padded)
        return has_room and (max_rows is None or len(batch) <= max_rows)

    assert all(len(batch) == 1 or fits(batch) for batch in batches)
    assert not any(fits([*batch, following[0]]) for batch, following in pairwise(batches))  # the longest first


@pytest.mark.parametrize(("max_tokens", "max_rows", "named"), [(0, None, "max_tokens_per_batch"), (9, 0, "batch_size")])
def test_a_limit_of_zero_is_refused(max_tokens, max_rows, named):
    with pytest.raises(ValueError, match=f"{named} must be at least 1, got 0"):
        token_budget_batches([3], max_tokens, max_rows)


def test_rows_are_padded_on_the_right_for_any_tokenizer(tokenizer):
    rows = [{"input_ids": np.array(ids, dtype=np.int32)} for ids in ([7, 8], [7, 8, 9])]
    side = tokenizer.padding_side
    tokenizer.padding_side = "left"
    try:
        ((numbers, batch),) = inference_batches(rows, tokenizer, torch.device("cpu"), max_tokens=100)
    finally:
        tokenizer.padding_side = side
    assert numbers == [1, 0]
    assert batch["input_ids"].tolist() == [[7, 8, 9], [7, 8, tokenizer.pad_token_id]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("gigabytes", "width", "packed", "expected"),
    [
        (24, 768, True, 131_072),
        (24, 1024, True, 65_536),
        (80, 1024, True, 131_072),
        (24, 4096, True, 32_768),
        (6, 1024, True, 32_768),
        (80, 768, False, 32_768),
    ],
)
def test_packed_batches_on_a_gpu_fit_into_a_quarter_of_its_memory(gigabytes, width, packed, expected, monkeypatch):
    encoder = SimpleNamespace(device=torch.device("cuda"), config=SimpleNamespace(hidden_size=width))
    memory = SimpleNamespace(total_memory=gigabytes * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: memory)
    assert tokens_per_batch(encoder, packed) == expected


def test_packed_batches_on_a_gpu_have_little_padding(tokenizer):
    rows = [{"input_ids": np.full(length, 7, dtype=np.int32)} for length in [500] + [5] * 100]
    batches = list(inference_batches(rows, tokenizer, torch.device("meta"), max_tokens=1000, packed=True))
    assert [batch["input_ids"].shape for _, batch in batches] == [(4, 500), (97, 5)]
    assert [int(batch["attention_mask"].sum()) for _, batch in batches] == [515, 485]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (True, r"Its weights are broken, in weight: train it again"),
        (False, r'too large for torch.float32: .*dtype="float32"'),
    ],
)
def test_nan_is_refused_with_the_text_and_the_reason(broken, reason):
    model = torch.nn.Linear(1, 1)
    if broken:
        model.weight.data.fill_(torch.nan)
    values = torch.tensor([[0.0], [torch.inf]])
    with pytest.raises(ValueError, match=f"Linear gives NaN or infinity for text 1 of 2, 'xxx.*{reason}"):
        refuse_non_finite(values, [0, 1], ["a", "x" * 100], model, "Linear")
    refuse_non_finite(values[:1], [0], ["a"], model, "Linear")


@pytest.fixture
def encoder(tiny_config, tokenizer):
    torch.manual_seed(0)
    return DocumentEncoder(BertModel(tiny_config), tokenizer, pooling="mean")


@pytest.fixture
def ahead(monkeypatch):
    """Have the CPU embed as a GPU does: small groups, made in a thread, and two batches that run."""
    made = []
    groups = embed_chunks._groups

    def noted(*args):
        for group in groups(*args):
            made.append(threading.current_thread())
            yield group

    monkeypatch.setattr(embed_chunks, "_groups", lambda *args: read_ahead(noted(*args)))
    monkeypatch.setattr(embed_chunks, "GROUP_TOKENS", 200)
    monkeypatch.setitem(embed_chunks.RUNNING_BATCHES, "cpu", 2)
    return made


@pytest.mark.parametrize("strategy", ["first", "average", "passages"])
def test_reading_ahead_changes_no_embedding_and_no_order(encoder, texts, strategy, ahead, monkeypatch):
    texts = [*texts, "", " ".join(texts)]

    def embed():
        if strategy == "passages":
            return encoder.encode_passages(texts, show_progress=False, max_tokens_per_batch=64).embeddings
        return encoder.encode(texts, show_progress=False, long_documents=strategy, max_tokens_per_batch=64)

    found = embed()
    assert len(ahead) > 3 and threading.main_thread() not in ahead
    monkeypatch.undo()
    monkeypatch.setattr(embed_chunks, "GROUP_TOKENS", 200)  # for the same batches, in turn
    assert np.array_equal(found, embed())


def test_cut_texts_are_logged_once_and_summed_up_as_without_a_thread(encoder, texts, ahead, caplog):
    long = [" ".join(texts)] * 5
    encoder.encode(long, show_progress=False)
    encoder.encode([], show_progress=False)
    assert caplog.text.count("5 of 5 texts are longer") == 1
    with sum_up_warnings():
        encoder.encode(long, show_progress=False)
        encoder.encode(long, show_progress=False)
    assert caplog.text.count("10 of 10 texts are longer") == 1
    with unlogged():
        encoder.encode(long, show_progress=False)
    assert caplog.text.count("texts are longer") == 2


def test_a_generator_of_chunks_is_read_lazily_and_its_error_comes_after_the_groups_before_it(encoder, ahead):
    read = []

    def chunks():
        for number in range(50):
            if number == 25:
                raise OSError("the file ends here")
            read.append(number)
            yield Chunk(text=number, input_ids=np.full(40, 7, dtype=np.int32), start=0, end=1)

    embedded = embed_chunks.embed_chunks(
        model=encoder.model,
        name="tiny",
        tokenizer=encoder.tokenizer,
        texts=["a"] * 50,
        chunks=chunks(),
        options=EmbeddingOptions(long_documents="first"),
        pool_states=lambda states, mask: [states[:, 0]],
    )
    assert not read
    done = []
    with pytest.raises(OSError, match="the file ends here"):
        for group, (values,) in embedded:
            assert len(group) == 5 == len(values)  # 200 tokens
            done += [chunk.text for chunk in group]
            assert len(read) <= len(done) + 15  # the next group, and the batches that run
    assert done == list(range(len(done))) and len(done) >= 15
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read_ahead")]


def test_a_broken_model_ends_the_thread(encoder, texts, ahead):
    encoder.model.encoder.layer[0].output.dense.weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="NaN or infinity for text .* Its weights are broken"):
        encoder.encode(texts, show_progress=False, max_tokens_per_batch=64)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read_ahead")]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of CUDA")
@pytest.mark.parametrize("bf16", [False, True])
def test_a_gpu_gives_the_embeddings_of_the_cpu(encoder, texts, bf16):
    texts = [text for number, text in enumerate(texts * 40) for text in (text, text[: number % 50])]
    expected = encoder.encode(texts, show_progress=False)
    encoder.model.cuda()
    found = encoder.encode(texts, show_progress=False, bf16=bf16, max_tokens_per_batch=2000)
    assert (found * expected).sum(1).min() > (0.999 if bf16 else 1 - 1e-5)


def test_a_text_as_long_as_several_books_is_logged_and_moves_the_bar(monkeypatch, caplog, capsys):
    monkeypatch.setattr(embed_chunks, "LONG_TEXT", 20_000)
    encoder = DocumentEncoder.from_pretrained(device="cpu", max_length=64)
    capsys.readouterr()
    encoder.encode(["A text that is read at once."], show_progress=True)
    assert "Embedding" not in capsys.readouterr().err  # the bar comes after a second
    monkeypatch.setattr(embed_chunks, "DELAY_OF_BAR", 0)
    text = "The river feeds the valley, and nobody counts the stones. " * 400
    encoder.encode([text], long_documents="whole", show_progress=False)
    assert "The longest text has 23,200 characters, and all are read: max_passages limits it." in caplog.text
    caplog.clear()
    capped = encoder.encode([text], long_documents="whole", max_passages=20, show_progress=True)
    assert "The longest text" not in caplog.text and "1 of 1 texts are longer than 20 passages: " in caplog.text
    assert "20/20" in capsys.readouterr().err
    first = encoder.encode_passages([text[:5_000]], show_progress=False).embeddings[:20]
    again = first[0] + first.mean(0) / np.linalg.norm(first.mean(0))
    assert capped[0] @ again / np.linalg.norm(again) == pytest.approx(1, abs=1e-3)


def reading_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read_ahead")]


@given(st.lists(st.none() | st.integers()), st.none() | st.integers(0, 5))
def test_items_come_in_order_and_an_error_comes_after_the_items_before_it(items, fails_at):
    def some():
        for number, item in enumerate(items):
            if number == fails_at:
                raise KeyError(item)
            yield item

    found = []
    if fails_at is None or fails_at >= len(items):
        found.extend(read_ahead(some()))
        assert found == items
    else:
        with pytest.raises(KeyError):
            found.extend(read_ahead(some()))
        assert found == items[:fails_at]
    assert not reading_threads()


def test_the_next_item_is_made_while_the_caller_uses_the_current_one_and_no_further_one():
    made = [threading.Event() for _ in range(5)]

    def some():
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in read_ahead(some()):
        if number + 1 < len(made):
            assert made[number + 1].wait(WAIT)
        assert not any(event.is_set() for event in made[number + 2 :])


@pytest.mark.parametrize("error", [GeneratorExit, KeyboardInterrupt, ValueError])
def test_the_thread_ends_when_the_caller_stops_in_the_middle(error):
    made = []
    items = read_ahead(made.append(number) or number for number in range(100))
    assert next(items) == 0 and reading_threads()
    if error is GeneratorExit:
        items.close()
    else:
        with pytest.raises(error):
            items.throw(error)
    assert not reading_threads()
    assert len(made) <= 2


def test_the_thread_has_the_context_of_the_caller():
    variable = ContextVar("variable", default=None)
    token = variable.set("outer")
    try:
        assert list(read_ahead(variable.get() for _ in range(2))) == ["outer", "outer"]
    finally:
        variable.reset(token)


@pytest.mark.parametrize("strategy, expected", [("passages_mean", [2, 4]), ("whole", [3, 3])])
def test_other_values_than_embeddings_are_averaged_as_they_are(strategy, expected):
    """The first chunk has a quarter of the tokens; by "whole" it counts as much as the average, once more."""
    parts = [
        Chunk(text=1, input_ids=np.zeros(weight, np.int32), start=0, end=1, weight=weight, is_first=weight == 1)
        for weight in (1, 3)
    ]
    averages = ChunkAverages(2, 2, strategy, are_embeddings=False)
    averages.add([Chunk(text=0, input_ids=np.zeros(2, np.int32), start=0, end=1)], np.array([[7, 8]], np.float32))
    averages.add(parts, np.array([[4, 2], [4 / 3, 14 / 3]], np.float32))
    np.testing.assert_allclose(averages.all(), [[7, 8], expected], rtol=1e-6)
