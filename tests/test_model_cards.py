"""The cards in model_cards/: they are what the Hub takes, and every number in them is in a results.json beside them."""

import dataclasses
import doctest
import json
import re
import shlex
import shutil
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results
from huggingface_hub.utils import validate_repo_id

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "model_cards"
MODULES = (
    "write_cards", "checkpoints", "recipes", "checkpoint_card", "recipe_card", "card_results", "training_cost",
    "evaluation_index",
)  # fmt: skip
COMMITTED = sorted(path.parent.name for path in FOLDER.glob("*/README.md"))
EXAMPLE = "docsplit-small-en"
MEASURED = ROOT / "docs" / "results" / "classification" / "results.json"
# What stands in cards as a number and is none: versions of licenses, years, the precision of the weights, a name.
NO_NUMBERS = r"Apache 2\.0|CC BY-SA 3\.0|EMNLP 2023|a dump of 2014|about 2008|float(16|32)|20 Newsgroups"
SHARES = {"accuracy", "macro_f1", "cosine_accuracy"}  # printed in percent, with two digits


@pytest.fixture(scope="module")
def generator():
    """The modules of model_cards/, which is a folder of scripts and no package."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(FOLDER)
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
    for name in MODULES:
        sys.modules.pop(name)


@pytest.fixture(scope="module")
def project(tmp_path_factory, make_tiny_config, tokenizer):
    """A project in which a checkpoint was released: its files, and results that have been measured of some system."""
    import torch

    from docsplit_hf import AutoModelForDocSplit
    from docsplit_hf.hub import save_sentence_transformers_files

    root = tmp_path_factory.mktemp("project")
    torch.manual_seed(0)
    model = AutoModelForDocSplit.from_config(make_tiny_config(), pooling="mean")
    model.config.docsplit = {"pooling": "mean", "max_length": 64}
    model.half().save_pretrained(root / EXAMPLE)
    config = json.loads((root / EXAMPLE / "config.json").read_text()) | {"dtype": "float32"}  # as the one that ships
    (root / EXAMPLE / "config.json").write_text(json.dumps(config))
    tokenizer.save_pretrained(root / EXAMPLE)
    save_sentence_transformers_files(root / EXAMPLE, model.config)
    (root / "results").mkdir()
    shutil.copy(MEASURED, root / "results" / "results.json")
    return root


@pytest.fixture(scope="module")
def example(generator):
    """What is stated of that checkpoint, all filled in."""
    command = (
        "python examples/run_pretrain.py --max_steps 1200 --per_device_train_batch_size 8 --max_length 96 --seed 3"
    )
    ran = {"hours": 0.75, "date": "2024-01-31", "ran_on": "two CPU cores"}
    launched = command.replace(
        "python", "accelerate launch --config_file examples/accelerate_configs/cpu_2_processes.yaml"
    )
    stages = (
        generator.checkpoints.Stage("MLM", launched, **ran),
        generator.checkpoints.Stage("DocSplit", command, **ran),
    )
    systems = {"docsplit": EXAMPLE, "MiniLM": "its start", "tfidf": "TF-IDF"}
    return generator.checkpoints.Checkpoint(
        EXAMPLE, EXAMPLE, "results/results.json", systems, 40_000, 500, 123_456, stages
    )


@pytest.fixture(scope="module")
def example_card(generator, project, example):
    results = generator.checkpoint_card.checkpoint_results(example, project)
    return generator.checkpoint_card.render_checkpoint(example, results), json.loads(results.text())


@pytest.fixture(scope="module")
def card_of(example_card):
    """A card and its results: one that is committed, or that of the example."""

    def card_of(name):
        if name == "example":
            return example_card
        folder = FOLDER / name
        return (folder / "README.md").read_text(), json.loads((folder / "results.json").read_text())

    return card_of


every_card = pytest.mark.parametrize("name", [*COMMITTED, "example"])


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


@every_card
def test_every_number_is_in_a_results_file(name, card_of):
    card, content = card_of(name)
    assert len(numbers_in(prose_and_index(card))) > 20
    assert numbers_without_source(card, content) == []


@every_card
def test_a_changed_number_is_noticed(name, card_of):
    """One digit changed in every number of three digits and more: nearly all are no number of the file then."""
    card, content = card_of(name)
    changed = []
    for written in set(numbers_in(prose_and_index(card))):
        if len(written) > 3:
            place = -1 if written[-1] != "9" else 0
            digits = list(written)
            digits[place] = str((int(digits[place]) + 1) % 10)
            changed.append("".join(digits))
    lacking = numbers_without_source("---\n{}\n---\n" + "\n".join(changed), content)
    assert len(changed) > 5 and len(lacking) / len(changed) > 0.8, sorted(set(changed) - set(lacking))


def commands_in(card):
    """The commands of a card's bash blocks, continued lines joined."""
    blocks = re.findall(r"```bash\n(.*?)```", card, flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.strip() and not line.startswith("#")]


def parse(command, monkeypatch):
    """Have a command's arguments parsed as its script does, and checked; nothing runs."""
    from transformers import HfArgumentParser

    monkeypatch.syspath_prepend(ROOT / "examples")
    from evaluation_arguments import EvaluationArguments
    from pretrain_arguments import DataArguments, ModelArguments, RunArguments

    from docsplit_hf.experiments.protocols import check_protocols
    from docsplit_hf.experiments.settings import EvaluationSettings

    [place] = [place for place, word in enumerate(command) if word.startswith("examples/run_")]
    assert (ROOT / command[place]).exists()
    launcher, arguments = command[:place], command[place + 1 :]
    if launcher != ["python"]:
        assert launcher[:3] == ["accelerate", "launch", "--config_file"] and (ROOT / launcher[3]).exists()
    if command[place] == "examples/run_evaluation.py":
        parser = HfArgumentParser((EvaluationArguments, EvaluationSettings))
        evaluation, _ = parser.parse_args_into_dataclasses(arguments)
        check_protocols(evaluation.protocol)
        return evaluation
    parser = HfArgumentParser((ModelArguments, DataArguments, RunArguments))
    return parser.parse_args_into_dataclasses([*arguments, *([] if "--use_cpu" in arguments else ["--use_cpu"])])[2]


@every_card
def test_the_commands_parse(name, card_of, monkeypatch):
    commands = commands_in(card_of(name)[0])
    assert len(commands) >= 2
    for command in commands:
        parse(command, monkeypatch)


def test_a_mistyped_option_does_not_parse(monkeypatch, capsys):
    with pytest.raises(ValueError, match="--max_step_s"):
        parse(shlex.split("python examples/run_pretrain.py --max_step_s 3"), monkeypatch)


def test_the_commands_that_are_not_published_yet_parse(generator, monkeypatch):
    """Of a checkpoint whose training is being written down."""
    for checkpoint in generator.checkpoints.CHECKPOINTS:
        for stage in checkpoint.stages:
            if stage.command:
                [command] = commands_in(f"```bash\n{stage.command}\n```")
                arguments = parse(command, monkeypatch)
                options = generator.card_results.read_command(stage.command)
                assert (arguments.seed, arguments.max_steps) == (options.seed, options.max_steps)
                assert Path(arguments.output_dir).name in ("start", checkpoint.name)


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


def test_the_examples_of_the_scripts_run(generator):
    for module in vars(generator).values():
        assert doctest.testmod(module).failed == 0


def test_a_recipe_whose_lengths_were_not_measured_is_refused(generator):
    recipe = generator.recipes.RECIPES[0]
    for old, new, message in (
        ("--max_length 512", "--max_length 500", "lengths of views of .*500.* were not measured"),
        ("--max_steps 172745", "", r"lacks \['max_steps'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            generator.recipe_card.recipe_results(dataclasses.replace(recipe, command=recipe.command.replace(old, new)))


def test_the_papers_numbers_are_the_papers(generator):
    """As many documents as theirs, less than a batch left over; and the row of their model."""
    from docsplit_hf.experiments.paper_results import FULL

    for recipe in generator.recipes.RECIPES:
        results = generator.recipe_card.recipe_results(recipe)
        documents = results.metrics("cost")["documents"]
        assert 0 <= 6_218_825 - documents < results.metrics("cost")["batch"]
        printed = [r["metrics"] for r in results.of("full") if r["system"] == recipe.paper_system]
        assert bool(printed) == (recipe.paper_system is not None)
        if printed:
            shares = [round(value / 100, 6) for value in FULL.rows[recipe.paper_system]]
            assert [value for metrics in printed for value in metrics.values()] == shares


@pytest.mark.parametrize("lengths", [(64, 64, 64, 64), (10, 20, 30, 40)])
def test_the_operations_are_those_that_a_step_takes(generator, tiny_config, lengths):
    """Counted by torch while a step runs, each row by itself, as without padding."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import BertForMaskedLM

    overrides = {name: value for name, value in tiny_config.to_diff_dict().items() if name != "model_type"}
    shape = generator.training_cost.encoder_shape("bert", overrides)
    model = BertForMaskedLM._from_config(tiny_config, attn_implementation="eager")
    counter = FlopCounterMode(display=False)
    with counter:
        for length in lengths:
            model(input_ids=torch.ones(1, length, dtype=torch.int64)).logits.sum().backward()
    # The two views and their masked copies are read; here each row once, and the head runs for every token.
    tokens, squares = sum(lengths), sum(length**2 for length in lengths)
    cost = generator.training_cost.document_cost(shape, tokens, squares, tokens)
    head = cost["head"] / generator.training_cost.MASKED_SHARE
    assert counter.get_total_flops() == pytest.approx((cost["products"] + cost["attention"]) / 2 + head, rel=1e-9)


def test_windows_bound_what_a_token_attends_to(generator):
    modern = generator.training_cost.encoder_shape("modernbert")
    assert [w is None for w in modern.windows] == [number % 3 == 0 for number in range(22)]
    assert set(modern.windows) == {None, 129}
    narrow = dataclasses.replace(modern, windows=(64,))
    cost = generator.training_cost.document_cost
    assert cost(narrow, 100, 5_000, 100)["attention"] == 12 * 768 * 2 * 100 * 64
    assert cost(narrow, 100, 5_000, 300)["attention"] == 3 * cost(narrow, 100, 5_000, 100)["attention"], "padding costs"
