"""The card of what ships: the Hub takes it, its commands and examples run, and its numbers are in its results.json."""

import dataclasses
import json
import re
import shutil
import statistics
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

from docsplit_hf import default_checkpoint

from ..commands import ROOT, commands_in, parse

FOLDER = ROOT / "model_cards" / "docsplit-small-en"
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
RESULTS = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))

# What stands in cards as a number and is none: versions of licenses, years, the precision of the weights, a name.
NO_NUMBERS = r"Apache 2\.0|CC BY-SA [34]\.0|ODC-BY 1\.0|EMNLP 2019|articles of 2014|to 2019|float(16|32)|20 Newsgroups"
SHARES = {"accuracy", "macro_f1", "cosine_accuracy", "matthews_correlation"}  # printed in percent, with two digits


def prose_and_index(card):
    """What a card says, without code, links, addresses and what is no number; and its model-index."""
    _, head, body = card.split("---\n", maxsplit=2)
    body = re.sub(r"```.*?```", " ", body, flags=re.DOTALL)
    body = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", body)
    leaves = leaves_of(yaml.safe_load(head).get("model-index", []))
    index = [f"{leaf:.2f}" if isinstance(leaf, float) else str(leaf) for leaf in leaves]
    shown = [leaf for leaf in index if not leaf.startswith("https://")]
    return re.sub(NO_NUMBERS, " ", "\n".join([body, *shown]))


def leaves_of(content):
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [leaf for part in content for leaf in leaves_of(part)]
    return [content]


def numbers_in(text):
    return re.findall(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)", text)


def known_numbers(content):
    """What is in a results.json: of repeats their number, mean and deviation; shares in percent; all other numbers.

    Returns:
        The shares, which are printed with two digits; and the others, which are printed with any.
    """
    shares, others, groups = set(), set(), {}
    for record in content["records"]:
        key = json.dumps([record[field] for field in ("system", "task", "protocol", "settings")], sort_keys=True)
        for name, value in record["metrics"].items():
            if record["protocol"] in ("full", "few_shot", "citation"):
                assert name in SHARES
                groups.setdefault((key, name), []).append(100 * value)
            else:
                others |= {value, 100 * value} if value < 1 else {value}
        for leaf in leaves_of([record["settings"], record["seed"]]):
            if isinstance(leaf, float):
                others |= {leaf, 100 * leaf}
            others |= {float(number.replace(",", "")) for number in numbers_in(str(leaf))}
    for values in groups.values():
        others.add(len(values))
        shares.add(statistics.fmean(values))
        if len(values) > 1:
            shares.add(statistics.stdev(values))
    for leaf in leaves_of([*content["tasks"].values(), *(run["ran_on"] for run in content["runs"])]):
        others |= {float(number.replace(",", "")) for number in numbers_in(str(leaf))}
    return shares, others


def numbers_without_source(card, content):
    shares, others = known_numbers(content)
    lacking = []
    for written in numbers_in(prose_and_index(card)):
        value, digits = float(written.replace(",", "")), len(written.partition(".")[2])
        known = others | shares if digits == 2 else others
        if not any(abs(value - number) <= 0.5 * 10**-digits + 1e-9 for number in known):
            lacking.append(written)
    return lacking


def test_it_lies_beside_the_weights_too():
    assert Path(default_checkpoint(), "README.md").read_text(encoding="utf-8") == CARD


def test_every_number_is_in_the_results():
    assert len(numbers_in(prose_and_index(CARD))) > 20
    assert numbers_without_source(CARD, RESULTS) == []


def test_a_changed_number_is_noticed():
    """One digit changed in every number of three digits and more: nearly all are no number of the file then."""
    changed = []
    for written in set(numbers_in(prose_and_index(CARD))):
        if len(written) > 3:
            place = -1 if written[-1] != "9" else 0
            digits = list(written)
            digits[place] = str((int(digits[place]) + 1) % 10)
            changed.append("".join(digits))
    lacking = numbers_without_source("---\n{}\n---\n" + "\n".join(changed), RESULTS)
    assert len(changed) > 5 and len(lacking) / len(changed) > 0.8, sorted(set(changed) - set(lacking))


def test_the_hub_takes_the_metadata():
    data = ModelCard.load(FOLDER / "README.md", ignore_metadata_errors=False).data
    head = yaml.safe_load(CARD.split("---\n")[1])
    assert ModelCardData(**head).to_dict() == data.to_dict() == head
    model_name, results = model_index_to_eval_results(head["model-index"])
    assert eval_results_to_model_index(model_name, results) == head["model-index"]
    for number, result in enumerate(results):  # of two that differ in their value only, the Hub would keep one
        assert not any(result.is_equal_except_value(dataclasses.replace(other)) for other in results[:number])


def test_the_commands_parse():
    commands = commands_in(CARD)
    assert len(commands) >= 2
    for command in commands:
        parse(command)


def test_a_killed_run_of_its_command_ended_as_an_uninterrupted_one():
    runs = json.loads((ROOT / "docs" / "results" / "study" / "resumed.json").read_text(encoding="utf-8"))
    whole, resumed = runs["whole"], runs["resumed_from_step"]
    assert runs["killed"] == whole and len(whole["losses"]) > resumed > 0
    assert runs["before_the_kill"] == runs["uninterrupted_logged"][: len(runs["before_the_kill"])]
    assert runs["after"] == runs["uninterrupted_logged"][resumed:]


def test_all_ways_to_load_it_give_the_same_embeddings(tmp_path, monkeypatch):
    shutil.copytree(default_checkpoint(), tmp_path / "docsplit-small-en")  # in the place of the one on the Hub
    monkeypatch.chdir(tmp_path)
    embeddings = []
    for example in re.findall(r"```python\n(.*?)```", CARD, flags=re.DOTALL):
        exec(compile(example, "the card", "exec"), scope := {})
        embeddings.append(scope["embeddings"])
    assert len(embeddings) == 3
    for other in embeddings:
        assert other == pytest.approx(embeddings[0], abs=1e-5) and str(other.dtype) == "float32"
