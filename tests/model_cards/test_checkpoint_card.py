"""The card of a released checkpoint shows what was measured, and is not written where something lacks."""

import dataclasses
import json
import re
import shutil
import statistics

import pytest
import yaml
from huggingface_hub.repocard_data import model_index_to_eval_results

from .conftest import EXAMPLE, MEASURED


def test_the_example_shows_what_was_measured(example_card):
    """Against means that are taken here."""
    card, _ = example_card
    records = json.loads(MEASURED.read_text())["records"]

    def percent(system, task, protocol, metric, **settings):
        values = [
            record["metrics"][metric]
            for record in records
            if (record["system"], record["task"], record["protocol"]) == (system, task, protocol)
            and settings.items() <= record["settings"].items()
        ]
        return 100 * statistics.fmean(values)

    _, results = model_index_to_eval_results(yaml.safe_load(card.split("---\n")[1])["model-index"])
    values = {(result.dataset_type, result.metric_name): result.metric_value for result in results}
    few = "Macro F1, 5 examples per class, mean of 10 draws"
    assert values["20news", few] == pytest.approx(
        percent("docsplit", "20News", "few_shot", "macro_f1", shots=5), abs=0.005
    )
    full = percent("docsplit", "BBCNews", "full", "accuracy")
    assert values["bbcnews", "Accuracy, all training examples that the card lists"] == pytest.approx(full, abs=0.005)
    cosine = percent("docsplit", "AAN", "citation", "cosine_accuracy")
    assert values["aan", "Accuracy by a threshold on the cosine"] == pytest.approx(cosine, abs=0.005)
    assert len(results) == 4 * 4 + 2
    tasks = ("20News", "BBCNews", "arXiv", "FakeNews")
    means = {
        system: statistics.fmean(percent(system, task, "few_shot", "macro_f1", shots=5) for task in tasks)
        for system in ("docsplit", "MiniLM", "tfidf")
    }
    row = re.search(rf"\| {EXAMPLE} \|.*\|", card).group().split("|")
    assert float(row[-2].strip(" *").split(" ± ")[0]) == pytest.approx(means["docsplit"], abs=0.005)
    start, words = (means["docsplit"] - means[other] for other in ("MiniLM", "tfidf"))
    assert f"{start:.1f} points above its start, and {words:.1f} points above TF-IDF" in card
    assert "| MLM | 1,200 | 16 | 96 | 3 | 0.75 hours |" in card, "8 a process, two processes"
    assert "| DocSplit | 1,200 | 8 | 96 | 3 | 0.75 hours |" in card and "1.5 hours in all, on two CPU cores" in card


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hours": None, "date": ""}, "lacks: hours of the stage 'MLM'; date of the stage 'MLM'"),
        ({"command": "python examples/run_pretrain.py --seed 1"}, "lacks: steps in the command of 'MLM'; batch in"),
    ],
)
def test_what_is_not_filled_in_is_named(generator, project, example, change, message):
    unfinished = dataclasses.replace(example, stages=(dataclasses.replace(example.stages[0], **change),))
    with pytest.raises(ValueError, match=message):
        generator.checkpoint_card.checkpoint_results(unfinished, project)


def test_results_that_a_card_cannot_show_are_refused(generator, project, example, tmp_path):
    def render_with(records, **change):
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(project, root)
        content = json.loads(MEASURED.read_text()) | {"records": records}
        (root / "results" / "results.json").write_text(json.dumps(content))
        generator.checkpoint_card.checkpoint_results(dataclasses.replace(example, **change), root)

    records = json.loads(MEASURED.read_text())["records"]
    render_with(records)
    with pytest.raises(ValueError, match=r"has nothing of \['mlm'\]: name the systems"):
        render_with(records, systems={"docsplit": EXAMPLE, "mlm": "its start"})
    with pytest.raises(ValueError, match="different repeats"):
        render_with([r for r in records if not (r["system"] == "tfidf" and r["seed"] == 2)])
    last = next(r for r in records if r["system"] == "docsplit" and r["protocol"] == "full")
    with pytest.raises(ValueError, match="docsplit on 20News by full with more than one choice"):
        render_with([*records, last | {"settings": {"probe": "logistic"}}])
    with pytest.raises(ValueError, match="2 different models that are called 'docsplit'"):
        render_with([last | {"system_fingerprint": "another"} if r is last else r for r in records])
    with pytest.raises(ValueError, match="no elsewhere/model.safetensors"):
        render_with(records, folder="elsewhere")
