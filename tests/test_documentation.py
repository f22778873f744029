"""What the documentation shows, run as it stands; or where that takes long or a network, parsed and compiled."""

import ast
import importlib
import json
import math
import re
from pathlib import Path

import pytest
import torch

from .commands import ROOT, blocks_in, commands_in, parse

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
NOT_ON_THE_CPU = [ROOT / "examples" / "accelerate_configs" / name for name in ("ddp.yaml", "fsdp.yaml")]
SHOWING_COMMANDS = [page for page in PAGES if "examples/run_" in "".join(blocks_in(page.read_text(), "bash"))]


@pytest.mark.parametrize("page", SHOWING_COMMANDS, ids=lambda page: page.name)
def test_every_command_of_an_example_script_parses(page):
    commands = [command for command in commands_in(page.read_text()) if "examples/run_" in " ".join(command)]
    assert commands, f"no command of {page.name} was found"
    for command in commands:
        parse(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_can_be_pasted(page):
    for command in commands_in(page.read_text()):
        assert not command[0].startswith("-"), f"{command} is a part of a command"
        for word in command[1:]:
            if word.endswith((".py", ".yaml")) and "/" in word:
                assert (ROOT / word).exists(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)", file.read_text(), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles], target


@pytest.mark.parametrize("page", [*PAGES, *NOT_ON_THE_CPU], ids=lambda page: page.name)
def test_what_has_never_run_is_said_in_the_same_words_wherever_it_is_described(page):
    text = " ".join(re.sub("^# ", "", page.read_text(), flags=re.MULTILINE).split())
    if re.search(r"\bGPUs?\b|CUDA|FSDP|DeepSpeed|push_to_hub|on the Hub", text):
        assert "docsplit_hf has never run on CUDA, with FSDP or DeepSpeed, or against the Hub" in text


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_compiles_and_imports_what_there_is(page):
    for block in blocks_in(page.read_text(), "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    importlib.import_module(alias.name)
            elif isinstance(node, ast.ImportFrom) and node.module != "sentence_transformers":  # not among the extras
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


def test_the_example_of_one_more_baseline(tiny_checkpoint, texts, tmp_path, monkeypatch):
    (example,) = blocks_in((DOCS / "baselines.md").read_text(), "python")
    assert len(example.splitlines()) < 60
    monkeypatch.chdir(tmp_path)
    Path("documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for written, small in {
        '"output/pretrain"': f'"{tiny_checkpoint}"',
        '"output/decoupled"': '"output/decoupled", use_cpu=True, max_steps=2, per_device_train_batch_size=4',
        '"documents.jsonl")': '"documents.jsonl", test_size=8)',
        "(tokenizer, views": "(tokenizer, max_length=64, views",
    }.items():
        assert example.count(written) == 1, written
        example = example.replace(written, small)
    run = {}
    exec(compile(example, "baselines.md", "exec"), run)
    card = Path("output/decoupled/README.md").read_text()
    assert "`contiguous_halves`: Cut the document in two near its middle." in card
    assert "| Loss | decoupled contrastive loss, temperature 0.05 |" in card
    same = torch.ones(8, 4)  # three negatives each, none of them told from the positive
    loss = run["trainer"].contrast(same, {"document_ids": torch.arange(4)}).loss
    assert loss.tolist() == pytest.approx(4 * [math.log(3)])
