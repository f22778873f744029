"""The command ``docsplit``. ``python -m docsplit_hf`` does the same."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path

from .extras import check_command

WRONG_INPUT = 2  # an exit code, as of argparse
SCRIPTS = {
    "pretrain": ("run_pretrain.py", "train an encoder on your unlabeled documents"),
    "classify": ("run_classification.py", "make a classifier of labeled texts, and classify others by it"),
    "evaluate": ("run_evaluation.py", "compare encoders and word counts on labeled texts"),
    "embed": ("run_embedding.py", "turn the texts of a file into embeddings"),
    "embed-corpus": ("embed_corpus.py", "embed a corpus of any size by many tasks, into shards"),
    "label": ("label_by_hand.py", "label documents in the terminal, those first that help most"),
}
DEMO = "a page to try it on, in the browser"
PAGE = "command_line.md"  # what --help of each command prints, so that nobody waits for imports
# Of bash and zsh: commands, then the options of the command, else files.
COMPLETION = """[ -z "$ZSH_VERSION" ] || {{ autoload -Uz +X compinit bashcompinit && compinit && bashcompinit; }}
_docsplit() {{
    case "$COMP_CWORD:${{COMP_WORDS[1]}}" in
        1:*) words="{commands}" ;;
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _docsplit docsplit
"""


def main() -> None:
    """Run the script that a command stands for, under the name of the command."""
    listed = "\n".join(f"  {name:14}{what}" for name, (_, what) in SCRIPTS.items())
    parser = argparse.ArgumentParser(
        prog="docsplit",
        usage="%(prog)s COMMAND [options]",
        description=f"Embeddings and classification of long documents.\n\ncommands:\n{listed}\n  {'demo':14}{DEMO}",
        epilog="docsplit COMMAND --help says more.\n"
        "On several processes: accelerate launch -m docsplit_hf COMMAND ...\n"
        'Completion in bash and zsh: eval "$(docsplit --completion)"',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=[*SCRIPTS, "demo"], help=argparse.SUPPRESS)
    if sys.argv[1:] == ["--completion"]:
        sys.stdout.write(completion())
        return
    command, *options = sys.argv[1:] or ["--help"]
    parser.parse_args([command])
    if options in (["--help"], ["-h"]):
        sys.stdout.write(help_of(command))
        return
    try:
        check_command(command, options)
    except ModuleNotFoundError as error:
        parser.exit(WRONG_INPUT, f"{error}\n")
    import_module(".registration", __package__).register()
    sys.argv = [f"docsplit {command}", *options]
    sys.path.insert(0, str(scripts_folder()))  # scripts import the modules beside them
    module = "docsplit_hf.demo" if command == "demo" else SCRIPTS[command][0].removesuffix(".py")
    runpy.run_module(module, run_name="__main__")


def help_of(command: str) -> str:
    """What ``--help`` of a command prints."""
    page = (scripts_folder() / PAGE).read_text(encoding="utf-8")
    return page.partition(f"## docsplit {command}\n\n```text\n")[2].partition("```")[0]


def completion() -> str:
    """What a shell evaluates to complete commands and the options that ``--help`` shows."""
    commands = [*SCRIPTS, "demo"]
    options = {name: " ".join(re.findall(r"^  (--\w+)", help_of(name), flags=re.MULTILINE)) for name in commands}
    cases = "\n".join(f'        *:{name}) words="{options[name]}" ;;' for name in commands)
    return COMPLETION.format(commands=" ".join(commands), cases=cases)


def scripts_folder() -> Path:
    """The scripts of ``examples/``: in the package where it was installed, beside it in a clone."""
    package = Path(__file__).parent
    return next(folder for folder in (package / "examples", package.parent / "examples") if folder.is_dir())


if __name__ == "__main__":
    main()
