"""The help of each command, as ``docsplit`` shows it and the documentation has it: examples/command_line.md.

    python docs/command_line.py

It is written anew after an option has changed; a test says when.
"""

import contextlib
import importlib
import io
import os
import sys

from docsplit_hf.__main__ import PAGE, SCRIPTS, scripts_folder

BEGIN = """# Command line

What `--help` of each command prints. `--help_all` of `pretrain`, `classify` and `evaluate` adds all other options, \
those of transformers' `TrainingArguments` too. `eval "$(docsplit --completion)"` makes bash and zsh complete them.

Commands are scripts: `docsplit classify` runs `examples/run_classification.py`, to read, copy and change. \
`python -m docsplit_hf COMMAND` does the same; on several processes: `accelerate launch -m docsplit_hf COMMAND`.
"""


def make_page() -> str:
    """The page, for a terminal of 80 columns."""
    commands = (*SCRIPTS, "demo")
    return BEGIN + "".join(f"\n## docsplit {name}\n\n```text\n{printed(name, '--help')}```\n" for name in commands)


def printed(command: str, *options: str) -> str:
    """What a command prints, run in this process, whose parsers need the imports that ``docsplit`` saves."""
    before, columns = sys.argv, os.environ.get("COLUMNS")
    sys.argv, os.environ["COLUMNS"] = [f"docsplit {command}", *options], "80"
    name = "docsplit_hf.demo.__main__" if command == "demo" else SCRIPTS[command][0].removesuffix(".py")
    try:
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(SystemExit):
            importlib.import_module(name).main()
    finally:
        sys.argv = before
        del os.environ["COLUMNS"]
        os.environ |= {} if columns is None else {"COLUMNS": columns}
    return output.getvalue()


if __name__ == "__main__":
    sys.path.insert(0, str(scripts_folder()))
    (scripts_folder() / PAGE).write_text(make_page(), encoding="utf-8")
