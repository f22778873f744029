"""Figures for Prometheus: counts, and drift as measure_drift computes it."""

from types import SimpleNamespace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from docsplit_hf.apps.server.metrics import FEWEST_DRIFT_TEXTS, Metrics, RecentTexts
from docsplit_hf.apps.server.states import PipelineState

from ...conftest import make_text

BATCHER = SimpleNamespace(waiting_tokens=3, batch_sizes=[(2, 10), (4, 30)])


def samples(content):
    families = text_string_to_metric_families(content.decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def test_counts():
    metrics = Metrics(BATCHER)
    metrics.requests.labels("/v1/classify", 200).inc()
    metrics.seconds.labels("/v1/classify").observe(0.01)
    metrics.count_rejections("a", [True, False, False, False])
    found = samples(generate_latest(metrics.registry))
    assert found["docsplit_requests_total", ("path", "/v1/classify"), ("status", "200")] == 1
    assert found["docsplit_rejected_share", ("model", "a")] == 0.25
    assert found["docsplit_waiting_tokens",] == 3
    assert found["docsplit_batch_jobs",] == 3
    assert found["docsplit_batch_tokens",] == 20


def test_drift_is_that_of_the_last_texts(loaded):
    state = PipelineState(loaded, "version", "float32", ())
    classifier = SimpleNamespace(name="a", state=state, without_paths=lambda text: text)
    metrics = Metrics(BATCHER)
    recent = RecentTexts(most=40)
    texts = [make_text(number, sentences=3) for number in range(500, 560)]
    recent.add(texts[: FEWEST_DRIFT_TEXTS - 1], [None] * (FEWEST_DRIFT_TEXTS - 1))
    recent.measure(classifier, metrics, 0.5)
    found = samples(generate_latest(metrics.registry))
    assert not any(name.startswith("docsplit_drift") for name, *_ in found)  # too few texts
    recent.add(texts, [None] * len(texts))
    recent.measure(classifier, metrics, 0.5)
    report = loaded.measure_drift(texts[-40:], reject=0.5)
    found = samples(generate_latest(metrics.registry))
    assert found["docsplit_drift_texts", ("model", "a")] == 40
    for measure in ("closeness", "novelty", "unknown_words"):
        change = report.drift[measure]
        key = ("model", "a"), ("measure", measure), ("value", "now")
        assert found["docsplit_drift", *sorted(key)] == pytest.approx(change.now)
        certain = found["docsplit_drift_certain", ("measure", measure), ("model", "a")]
        assert certain == change.is_certain


def test_a_path_is_counted_by_its_pattern(shared_server):
    shared_server.send("GET", "/v1/models/second")
    shared_server.send_raw("GET", "/no/such/place/1")
    shared_server.send_raw("GET", "/no/such/place/2")
    _, content, _ = shared_server.send_raw("GET", "/metrics")
    paths = {dict(key[1:])["path"] for key in samples(content) if key[0] == "docsplit_requests_total"}
    assert "/v1/models/{name}" in paths
    assert "other" in paths
    assert not any("place" in path for path in paths)  # strangers cannot make series without end
