"""What the documentation says beside its code; the code runs by conftest.py of the root."""

import ast
import re

import pytest

from .code_blocks import compare
from .commands import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
NOT_ON_THE_CPU = [ROOT / "examples" / "accelerate_configs" / name for name in ("ddp.yaml", "fsdp.yaml")]


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
def test_what_describes_gpus_or_the_hub_leads_to_what_has_never_run(page):
    text = page.read_text()
    if re.search(r"\bGPUs\b|FSDP|DeepSpeed|push_to_hub|on the Hub", text):
        assert "#what-has-never-run" in text or "## What has never run\n" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_describes_a_gpu_leads_to_what_ran_on_one(page):
    text = page.read_text()
    if re.search(r"\bGPU\b|CUDA", text):
        assert re.search(r"#on-a-gpu|#memory-of-a-gpu|#what-has-never-run|## What has never run\n", text)


def test_the_messages_that_troubleshooting_explains_are_said_somewhere():
    files = (ROOT / "docsplit_hf").rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    said = "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    page = (DOCS / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]* [^`]*)`(?! of transformers)", page, flags=re.MULTILINE)
    assert len(messages) > 8
    for message in messages:
        assert all(part in said for part in message.split(" ... ")), message


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_is_in_a_language_that_is_tested(page):
    fences = re.findall(r"^```(.*)$", page.read_text(), flags=re.MULTILINE)
    assert set(fences) <= {"python", "bash", "text", ""}


def test_an_output_that_differs_is_told():
    shown = "label 'news'  score 0.80\n...\nend"
    compare(shown, "label 'news' score 0.79\nmore\nof it\nend\n")
    for printed in ("label 'food' score 0.80\n\nend", "label 'news' score 0.60\n\nend", "label 'news' score 0.80\n\n"):
        with pytest.raises(AssertionError):
            compare(shown, printed)
