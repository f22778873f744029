import configparser
import re
import subprocess
import sys

import pytest

from docsplit_hf.extras import LIBRARIES, check_command

from .commands import ROOT

FROM_AN_INDEX = re.compile(r"""pip install ["']?docsplit_hf""")


@pytest.fixture
def bare(monkeypatch):
    """An environment as the README's own line installs it: without any extra."""
    for name in {name for names in LIBRARIES.values() for name in names}:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    "line, message",
    [
        ("demo", r'docsplit demo needs gradio, which is not installed: pip install -e "\.\[demo\]"'),
        ("serve output/kinds", r"docsplit serve needs fastapi and uvicorn .*\[serve\]"),
        ("embed --precision int8", r"docsplit embed --precision int8 needs openvino and nncf, .*\[openvino\]"),
        ("embed --precision=int8", r"\[openvino\]"),
        ("export output/kinds --precision int8", r"docsplit export needs onnx and onnxruntime, .*\[onnx\]"),
        ("pretrain --teacher_precision int8 --seed 1", r"\[openvino\]"),
        ("pretrain --report_to tensorboard trackio", r"\[tensorboard\]"),
    ],
)
def test_missing_libraries_of_a_command_are_named_before_any_work(bare, line, message):
    command, *words = line.split()
    with pytest.raises(ModuleNotFoundError, match=message):
        check_command(command, words)


@pytest.mark.parametrize(
    "line",
    ["classify --dataset_name a.csv", "embed --precision float32", "pretrain --use_peft", "evaluate --models a"],
)
def test_other_commands_need_no_extra(bare, line):
    command, *words = line.split()
    check_command(command, words)


def test_the_command_ends_with_the_line_that_installs_it_and_imports_nothing(tmp_path):
    (tmp_path / "without.py").write_text(
        "import sys\n"
        "sys.modules['gradio'] = None\n"
        "sys.argv = ['docsplit', 'demo']\n"
        "from docsplit_hf.__main__ import main\n"
        "try:\n    main()\nfinally:\n    print(sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, tmp_path / "without.py"], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 2 and run.stdout == "[]\n"
    assert run.stderr == (
        "docsplit demo: error: docsplit demo needs gradio, which is not installed: "
        'pip install -e ".[demo]" (in the clone of docsplit_hf).\n'
    )


def test_the_extras_are_those_of_the_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    assert set(LIBRARIES) == set(extras) - {"docs", "test", "benchmark", "dev"}


def test_no_page_installs_docsplit_hf_from_a_package_index():
    folders = ("docs", "docsplit_hf", "examples", "experiments", "model_cards", "skills")
    files = [path for folder in folders for ending in ("*.md", "*.py") for path in (ROOT / folder).rglob(ending)]
    telling = [path for path in (ROOT / "README.md", *files) if FROM_AN_INDEX.search(path.read_text(encoding="utf-8"))]
    assert not telling
