"""The command ``docsplit``, also run by ``python -m docsplit_hf``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from .apps.cli.commands import (
    COMMANDS,
    REMOVED,
    REMOVED_OPTIONS,
    RENAMED_OPTIONS,
    WRONG_INPUT,
    did_you_mean,
    help_of,
)
from .extras import check_command, check_full_installation, options_of


def main() -> None:
    """Run a command. Its module is imported only to run it, so that help is shown quickly."""
    listed = "\n".join(f"  {name:14}{command.summary}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="docsplit",
        usage="%(prog)s COMMAND [options]",
        description=f"Embeddings and classification of long documents.\n\ncommands:\n{listed}",
        epilog="docsplit COMMAND --help shows the options of a command.\n"
        "On several processes: accelerate launch -m docsplit_hf COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", help=argparse.SUPPRESS)
    command, *options = sys.argv[1:] or ["--help"]
    if command in REMOVED:
        parser.exit(WRONG_INPUT, f"docsplit: error: {REMOVED[command]}\n")
    parser.parse_args([command])
    if command not in COMMANDS:
        parser.error(f"there is no command {command!r}{did_you_mean(command, COMMANDS)}: docsplit --help lists all.")
    for option, _ in options_of(options):
        of_all = REMOVED_OPTIONS.get(option.removeprefix("--")) if command in ("fit", "train", "classify") else None
        if advice := of_all or REMOVED_OPTIONS.get(f"{command} {option}"):
            parser.exit(WRONG_INPUT, f"docsplit {command}: error: {option} was removed: {advice}.\n")
        name = RENAMED_OPTIONS.get(f"{command} {option}")
        if name and not any(word.startswith("--dataset_name") for word in options):
            print(f"docsplit {command}: {option} is now named {name}.", file=sys.stderr)
            options = [name + word.removeprefix(option) if word.startswith(option) else word for word in options]
    if options in (["--help"], ["-h"]):
        sys.stdout.write(help_of(command))
        return
    try:
        check_command(command, options)
        if COMMANDS[command].needs_torch:
            check_full_installation(f"docsplit {command}")
    except ModuleNotFoundError as error:
        parser.exit(WRONG_INPUT, f"docsplit {command}: error: {error}\n")
    sys.argv = [f"docsplit {command}", *options]
    import_module(f".{COMMANDS[command].module}", __package__).run()


if __name__ == "__main__":
    main()
