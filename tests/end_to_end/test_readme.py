"""README.md as a new user follows it: every block but the installation, in order, in one folder."""

import ast
import csv
import re

from ..commands import commands_in
from .conftest import ROOT


def test_the_readme_from_the_first_block_to_the_last(tmp_path, monkeypatch, texts, run_python, run_script):
    monkeypatch.chdir(tmp_path)
    with open("labeled.csv", "w", newline="") as labeled, open("new.csv", "w", newline="") as new:
        kinds = ["river" if "river" in text else "other" for text in texts]
        csv.writer(labeled).writerows([["body", "kind"], *zip(texts, kinds, strict=True)])
        csv.writer(new).writerows([["body"], *([text] for text in texts)])
    (tmp_path / "documents").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "documents" / f"{number}.txt").write_text(f"{text} {text[::-1]}")
    readme = (ROOT / "README.md").read_text()
    printed = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", readme, flags=re.DOTALL | re.MULTILINE):
        if language == "python":
            printed.append(run_python("-W", "ignore", "-c", block))
        for command in commands_in(f"```bash\n{block}```\n") if language == "bash" else ():
            if command[0] == "python":
                printed.append(run_script(ROOT / command[1], *command[2:]))
    assert len(printed) == readme.count("```python\n") + readme.count("\npython examples/") == 5
    answers = r"^\[\{'label.*?\}\]$"
    [shown], [answer] = (
        ast.literal_eval(re.search(answers, text, re.MULTILINE | re.DOTALL)[0]) for text in (readme, printed[0])
    )
    assert answer.keys() == shown.keys()
    assert answer["explanation"].keys() == shown["explanation"].keys()
    assert answer["explanation"]["experts"].keys() == shown["explanation"]["experts"].keys()
    with open("answers.csv", newline="") as answers:
        assert [row["body"] for row in csv.DictReader(answers)] == texts
