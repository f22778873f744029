"""The estimate for the longest text is logged once, and only if it is long."""

import re

import numpy as np
import pytest

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding import time_estimate as time_estimate_module
from docsplit_hf.encoding.chunking import Chunk
from docsplit_hf.encoding.time_estimate import TimeEstimate


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        return self.now


def passages(number, tokens=100, characters=400):
    """Passages of one text."""
    ids = np.zeros(tokens, dtype=np.int32)
    return [Chunk(0, ids, start * characters, (start + 1) * characters, weight=tokens) for start in range(number)]


def messages(caplog):
    return [record.message for record in caplog.records]


def read(time_estimate, clock, chunks, seconds):
    """Read chunks one by one, each in so many seconds."""
    time_estimate.begin(chunks)
    for chunk in chunks:
        clock.now += seconds
        time_estimate.add(len(chunk.input_ids))


@pytest.mark.parametrize(
    ("characters", "seconds", "said"),
    [
        (400_000, 0.1, "100,000 tokens .* 1,000 passages: this takes about 2 minutes"),
        (400_000, 0.05, "100,000 tokens .* 1,000 passages: this takes about 50 seconds"),
        (40_000_000, 0.1, "10,000,000 tokens .* 100,000 passages: this takes about 2.8 hours"),
    ],
)
def test_the_estimate_follows_the_measured_speed(characters, seconds, said, caplog):
    clock = Clock()
    time_estimate = TimeEstimate(["x" * characters, "short"], clock=clock)
    read(time_estimate, clock, passages(200), seconds)
    (message,) = messages(caplog)  # once
    assert re.search(said, message)


def test_estimates_below_half_a_minute_are_not_logged(caplog):
    clock = Clock()
    read(TimeEstimate(["x" * 100_000], clock=clock), clock, passages(250), 0.1)  # 25 seconds
    assert not messages(caplog)


def test_many_short_texts_have_no_estimate(caplog):
    clock = Clock()
    chunks = [Chunk(number, np.zeros(100, dtype=np.int32), 0, 400) for number in range(1_000)]
    read(TimeEstimate(["x" * 400] * 1_000, clock=clock), clock, chunks, 1)
    assert not messages(caplog)


def test_max_passages_shortens_the_estimate(caplog):
    clock = Clock()
    read(TimeEstimate(["x" * 400_000], max_passages=100, clock=clock), clock, passages(100), 0.1)
    assert not messages(caplog)
    clock = Clock()
    read(TimeEstimate(["x" * 400_000], max_passages=500, clock=clock), clock, passages(100), 0.1)
    assert "50,000 tokens of the longest text are read, in 500 passages: this takes about 50 s" in messages(caplog)[0]


def test_a_text_of_300_kilobytes_logs_an_estimate_and_moves_the_bar(monkeypatch, caplog, capsys):
    monkeypatch.setattr(time_estimate_module, "MEASURED_SECONDS", 0.01)
    monkeypatch.setattr(time_estimate_module, "LEAST_SECONDS", 0.05)  # a machine may be quick
    encoder = DocumentEncoder.from_pretrained(device="cpu", max_length=64)
    text = "The river feeds the valley, and nobody counts the stones. " * 5_200  # 300 KB
    capped = encoder.encode([text], long_documents="whole", max_passages=100, show_progress=True)
    said = messages(caplog)
    assert any("of the longest text are read, in 100 passages" in message for message in said)
    assert any("1 of 1 texts are longer than 100 passages: 9" in message for message in said)
    bar = capsys.readouterr().err
    assert "100/100" in bar and bar.count("chunk/s]") >= 3
    first = encoder.encode_passages([text[:20_000]], show_progress=False).embeddings[:100]
    again = first[0] + first.mean(0) / np.linalg.norm(first.mean(0))
    assert capped[0] @ again / np.linalg.norm(again) == pytest.approx(1, abs=1e-3)
