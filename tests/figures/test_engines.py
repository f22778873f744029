"""What was run on Slurm and Ray: the page on a corpus; and by DeepSpeed: README.md."""

from ..commands import ROOT
from .records import content


def test_corpus():
    text = (ROOT / "docs" / "corpus.md").read_text(encoding="utf-8")
    runs = content("engines.json")
    killed = [run for name, run in runs.items() if name.endswith("killed")]
    assert len(killed) == 4 and all(
        run["equal"] and f"{run['documents']:,} documents in 4 tasks" in text for run in killed
    )
    assert runs["ray, pipeline in actors"]["answers_equal"]
    for engine in ("slurm", "ray", "datatrove"):
        versions = {run[engine] for run in runs.values() if engine in run}
        assert f"{engine.capitalize() if engine != 'datatrove' else engine} {versions.pop()}" in text and not versions


def test_deepspeed():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    run = content("engines.json")["deepspeed, ZeRO-2"]
    assert f"ZeRO-2 of DeepSpeed {run['deepspeed']}" in text
    assert run["resumed_equal"] and run["losses_differ_by"] < 1e-5
