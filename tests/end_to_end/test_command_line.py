"""What the command ``docsplit`` says of itself, and how soon."""

import importlib.util
import subprocess
import sys

import pytest

from docsplit_hf.__main__ import PAGE, SCRIPTS, scripts_folder

from .conftest import ROOT


def test_the_page_with_the_help_of_all_commands_is_what_their_parsers_say():
    file = ROOT / "docs" / "command_line.py"
    made = importlib.util.module_from_spec(specification := importlib.util.spec_from_file_location("made", file))
    specification.loader.exec_module(made)
    page = (scripts_folder() / PAGE).read_text(encoding="utf-8")
    assert page == made.make_page(), "after a change of options: python docs/command_line.py"
    assert "..." not in page.partition("## docsplit demo")[0], "a sentence is cut"


@pytest.mark.parametrize("command", [*SCRIPTS, "demo", None])
def test_help_waits_for_no_import(command):
    started = [sys.executable, "-X", "importtime", "-m", "docsplit_hf", *filter(None, [command]), "--help"]
    finished = subprocess.run(started, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    assert f"usage: docsplit {command or 'COMMAND'} " in finished.stdout.replace("docsplit-", "docsplit ")
    imported = {line.rpartition("|")[2].strip() for line in finished.stderr.splitlines()}
    assert "docsplit_hf" in imported and not {"torch", "transformers", "numpy"} & imported
