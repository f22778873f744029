"""Run each block of the README, in order, in a new environment made by its own lines: make test-readme.

A copy of the files of the clone is all that is there at first. What a reader has (two tables, texts, documents/)
is written beside it. Python blocks are run as files. Then come the commands that need more libraries than the README
installs: each must say so at once, with the line that installs them. It needs nothing but Python.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTALL = "pip install -e .\n"
SECONDS_TO_REFUSE = 5  # a refusal must not wait for imports
# What the README's own lines do not install, and what each command must answer.
REFUSED = {
    "docsplit demo": "[demo]",
    "docsplit embed --dataset_name new.csv --text_column body --precision int8": "[openvino]",
    "docsplit pretrain --dataset_name new.csv --report_to tensorboard": "[tensorboard]",
}
EVALUATION = (
    "docsplit evaluate --models docsplit-small-en tfidf --tasks labeled.csv --text_column body --label_column kind"
    " --output_dir output/evaluation --protocol few_shot"
)


def main() -> None:
    """Run all of it; the process ends with an error at the first block that fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--torch", help="what to install as torch before the README's line does, such as 'torch==2.13.0'"
    )
    given = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "clone")
        copy_of_clone(folder)
        write_files(folder)
        for number, (language, code) in enumerate(blocks(), start=1):
            if language == "bash":
                if given.torch:
                    code = code.replace(INSTALL, f"pip install '{given.torch}'\n{INSTALL}")
                command = f"set -e\n{code}" if "source " in code else f"set -e\nsource .venv/bin/activate\n{code}"
            else:
                Path(folder, f"block_{number}.py").write_text(code, encoding="utf-8")
                command = f"source .venv/bin/activate\npython block_{number}.py"
            run(folder, f"block {number}, {language}: {code.strip().splitlines()[0]}", command)
        for command, extra in REFUSED.items():
            refuse(folder, command, extra)
        run(folder, EVALUATION, f"source .venv/bin/activate\n{EVALUATION}")
        assert (folder / "output" / "evaluation" / "results.md").is_file()
    print(f"All of the README ran in {(time.monotonic() - start) / 60:.1f} minutes.")


def blocks() -> list[tuple[str, str]]:
    """The blocks of Bash and Python, but the one of make, whose commands set up an environment of their own."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```(bash|python)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    found = [(language, code) for language, code in found if not code.startswith("make ")]
    assert len(found) >= 5, found
    return found


def copy_of_clone(folder: Path) -> None:
    """The files that git tracks or would, as they are now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)


def write_files(folder: Path) -> None:
    """What the README supposes a reader to have: a table, documents, other labeled texts, and texts to classify."""
    lines = (ROOT / "docsplit_hf" / "reading" / "example_texts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    labeled = [(row["text"], row["label"]) for row in rows if row.get("label")]
    others = [row["text"] for row in rows if not row.get("label")]
    tables = {
        "labeled.csv": [("body", "kind"), *labeled],
        "test.csv": [("body", "kind"), *((f"Read this. {text}", label) for text, label in labeled[:12])],
        "new.csv": [("body",), *((text,) for text in [*others, *(text for text, _ in labeled)])],
    }
    for name, table in tables.items():
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(table)
    (folder / "documents").mkdir()
    for number, text in enumerate(others):
        (folder / "documents" / f"{number}.txt").write_text(text, encoding="utf-8")


def run(folder: Path, title: str, command: str) -> str:
    """Run a block, and give what it printed; of one that fails, show it and end."""
    start = time.monotonic()
    finished = in_bash(folder, command)
    print(f"{time.monotonic() - start:6.1f} s  {title}", flush=True)
    if finished.returncode:
        sys.exit(f"{finished.stdout}\nIt ended with exit code {finished.returncode}: {title}")
    return finished.stdout


def refuse(folder: Path, command: str, extra: str | None) -> None:
    """Run a command that must say what to install, before any work; None: one that needs nothing."""
    start = time.monotonic()
    finished = in_bash(folder, f"source .venv/bin/activate\n{command}")
    seconds = time.monotonic() - start
    print(f"{seconds:6.1f} s  {command}: {finished.stdout.strip().splitlines()[-1][:100]}", flush=True)
    expected = 0 if extra is None else 2
    told = extra is None or f'pip install -e ".{extra}"' in finished.stdout
    if finished.returncode != expected or not told or seconds > SECONDS_TO_REFUSE:
        sys.exit(f"{finished.stdout}\nExit code {finished.returncode} after {seconds:.1f} s: {command}")


def in_bash(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run lines of Bash in a folder, without this process's own environment of Python."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    given = {"cwd": folder, "env": environment, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(["bash", "-c", command], check=False, **given)


if __name__ == "__main__":
    main()
