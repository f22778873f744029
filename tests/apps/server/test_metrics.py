"""Figures for Prometheus."""

from types import SimpleNamespace

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from docsplit_hf.apps.server.server import Metrics

BATCHER = SimpleNamespace(waiting_tokens=3)


def samples(content):
    families = text_string_to_metric_families(content.decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def test_counts():
    metrics = Metrics(BATCHER)
    metrics.requests.labels("/v1/classify", 200).inc()
    metrics.seconds.labels("/v1/classify").observe(0.01)
    metrics.rejectable.labels("a").inc(4)
    found = samples(generate_latest(metrics.registry))
    assert found["docsplit_requests_total", ("path", "/v1/classify"), ("status", "200")] == 1
    assert found["docsplit_rejectable_texts_total", ("model", "a")] == 4
    assert found["docsplit_waiting_tokens",] == 3


def test_unknown_paths_are_counted_together(shared_server):
    shared_server.send("GET", "/v1/models")
    shared_server.send_raw("GET", "/no/such/place/1")
    shared_server.send_raw("GET", "/no/such/place/2")
    _, content, _ = shared_server.send_raw("GET", "/metrics")
    paths = {dict(key[1:])["path"] for key in samples(content) if key[0] == "docsplit_requests_total"}
    assert "/v1/models" in paths
    assert "other" in paths
    assert not any("place" in path for path in paths)  # strangers cannot make series without end
