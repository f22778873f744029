"""The cards are what the generator writes, what the Hub takes, and their examples run."""

import dataclasses
import doctest
import re
import shutil
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results
from huggingface_hub.utils import validate_repo_id

from .conftest import COMMITTED, EXAMPLE, ROOT, every_card


def test_the_generator_gives_the_committed_files_to_the_byte(generator):
    files = generator.write_cards.render()
    for name, text in files.items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"run python model_cards/write_cards.py: {name}"
    written = {Path(name).parent.name for name in files if name.startswith("model_cards/")}
    assert written == set(COMMITTED), "a card that nothing writes"


@every_card
def test_the_metadata_is_what_the_hub_takes(name, card_of, tmp_path):
    from packaging.licenses import canonicalize_license_expression
    from transformers.pipelines import SUPPORTED_TASKS

    text, _ = card_of(name)
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    card = ModelCard.load(tmp_path / "README.md", ignore_metadata_errors=False)
    data = card.data
    head = yaml.safe_load(text.split("---\n")[1])
    assert ModelCardData(**head).to_dict() == data.to_dict() == head
    assert canonicalize_license_expression(data.license) == "Apache-2.0" and data.license == "apache-2.0"
    assert (data.language, data.library_name) == ("en", "sentence-transformers")
    assert data.pipeline_tag in SUPPORTED_TASKS
    for name_on_hub in [data.base_model, *(data.datasets or [])]:
        if name_on_hub is not None:
            validate_repo_id(name_on_hub)
            assert name_on_hub.count("/") == 1
    assert len(set(data.tags)) == len(data.tags) and data.pipeline_tag in data.tags
    assert not re.search(r"\$\w", text.split("## How to load it")[0]), "a field of the template was not filled in"


@every_card
def test_the_model_index_survives_a_round_trip(name, card_of):
    text, _ = card_of(name)
    head = yaml.safe_load(text.split("---\n")[1])
    if "model-index" not in head:
        assert name == "docsplit-modernbert-base", "only ModernBERT has no numbers at all"
        return
    model_name, results = model_index_to_eval_results(head["model-index"])
    assert eval_results_to_model_index(model_name, results) == head["model-index"]
    for number, result in enumerate(results):
        again = dataclasses.replace(result, metric_value=0.0)
        assert result.is_equal_except_value(again) and isinstance(result.metric_value, float)
        # Of two that differ in their value only, the Hub would keep one.
        assert not any(result.is_equal_except_value(other) for other in results[:number])


@every_card
def test_a_recipe_claims_nothing_as_measured(name, card_of):
    text, content = card_of(name)
    head = yaml.safe_load(text.split("---\n")[1])
    results = model_index_to_eval_results(head["model-index"])[1] if "model-index" in head else []
    if name in (EXAMPLE, "example"):
        assert all(result.source_url is None for result in results), "measured by the author of the card"
        assert "recipe" not in head["tags"]
        return
    assert "recipe" in head["tags"] and text.split("\n# ")[1].split("\n")[2].startswith("**A recipe, not a released")
    assert all("the authors' own numbers" in result.source_name for result in results)
    assert all(result.source_url.startswith("https://aclanthology.org/") for result in results)
    assert {record["origin"] for record in content["records"] if record["protocol"] in ("full", "few_shot")} <= {
        "printed in a paper"
    }


@every_card
def test_the_python_examples_run_and_agree(name, card_of, project, texts, tmp_path, monkeypatch):
    """On a small checkpoint in the place of the real one; all ways to load it give the same embeddings."""
    card, _ = card_of(name)
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    [folder] = {match for example in examples for match in re.findall(r'from_pretrained\("([^"]+)"', example)}
    shutil.copytree(project / EXAMPLE, folder)
    embeddings = []
    for example in examples:
        example = re.sub(r"max_length=\d+", "max_length=64", example)
        exec(compile(example, f"the card of {name}", "exec"), scope := {})
        embeddings.append(scope["embeddings"])
    assert len(embeddings) == (3 if name in (EXAMPLE, "example") else 1)
    for other in embeddings:
        assert other == pytest.approx(embeddings[0], abs=1e-5) and str(other.dtype) == "float32"


def test_the_examples_of_the_scripts_run(generator):
    for module in vars(generator).values():
        assert doctest.testmod(module).failed == 0
