"""The cards in model_cards/, the scripts that write them, and a checkpoint that was released for the tests."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "model_cards"
MODULES = (
    "write_cards", "checkpoints", "recipes", "checkpoint_card", "recipe_card", "card_results", "training_cost",
    "evaluation_index",
)  # fmt: skip
COMMITTED = sorted(path.parent.name for path in FOLDER.glob("*/README.md"))
EXAMPLE = "docsplit-small-en"
MEASURED = ROOT / "docs" / "results" / "classification" / "results.json"

every_card = pytest.mark.parametrize("name", [*COMMITTED, "example"])


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
    from docsplit_hf.pretraining.card import save_sentence_transformers_files

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
