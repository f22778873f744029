"""Write the help of each command to docsplit_hf/apps/cli/command_line.md, which is shown there and in docs/.

    python docs/command_line.py

Run it after an option has changed; a test compares the page with the parsers.
"""

import contextlib
import importlib
import io
import os
from unittest import mock

from docsplit_hf.apps.cli.commands import COMMANDS, HELP_PAGE

BEGIN = """# Command line

The output of `--help` for each command. `--help_all` of `pretrain`, `fit`, `train` and `classify` adds \
all other options, including those of transformers' `TrainingArguments`.

The commands are the modules of `docsplit_hf/apps/cli/`: `docsplit fit` runs `docsplit_hf/apps/cli/fit.py`. \
`python -m docsplit_hf COMMAND` does the same; on several processes: `accelerate launch -m docsplit_hf COMMAND`.
"""


def make_page() -> str:
    """Return the page, for a terminal of 80 columns."""
    return BEGIN + "".join(f"\n## docsplit {name}\n\n```text\n{printed_help(name)}```\n" for name in COMMANDS)


def printed_help(command: str) -> str:
    """Return the help that a command's parser prints, run in this process."""
    module = importlib.import_module(f"docsplit_hf.{COMMANDS[command].module}")
    with (
        mock.patch("sys.argv", [f"docsplit {command}", "--help"]),
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.suppress(SystemExit),
    ):
        module.main()
    return output.getvalue()


if __name__ == "__main__":
    HELP_PAGE.write_text(make_page(), encoding="utf-8")
