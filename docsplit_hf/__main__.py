"""``docsplit``: the journeys as commands. ``python -m docsplit_hf`` does the same."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

SCRIPTS = {
    "pretrain": ("run_pretrain.py", "train an encoder on your unlabeled documents"),
    "classify": ("run_classification.py", "make a classifier of labeled texts, and classify others by it"),
    "evaluate": ("run_evaluation.py", "compare encoders and word counts on labeled texts"),
    "embed": ("run_embedding.py", "turn the texts of a file into embeddings"),
    "embed-corpus": ("embed_corpus.py", "embed a corpus of any size by many tasks, into shards"),
    "label": ("label_by_hand.py", "label documents in the terminal, those first that help most"),
}
DEMO = "a page to try it on, in the browser"


def main() -> None:
    """Run the script that a command stands for, as if it were called by its path."""
    listed = "\n".join(f"  {name:14}{what}" for name, (_, what) in SCRIPTS.items())
    parser = argparse.ArgumentParser(
        prog="docsplit",
        usage="%(prog)s COMMAND [options]",
        description=f"Embeddings and classification of long documents.\n\ncommands:\n{listed}\n  {'demo':14}{DEMO}",
        epilog="docsplit COMMAND --help says more. On several processes: accelerate launch -m docsplit_hf COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=[*SCRIPTS, "demo"], help=argparse.SUPPRESS)
    command = parser.parse_args(sys.argv[1:2] or ["--help"]).command
    del sys.argv[0]
    if command == "demo":
        runpy.run_module("docsplit_hf.demo", run_name="__main__")
        return
    folder = scripts_folder()
    sys.path.insert(0, str(folder))  # scripts import the modules beside them
    runpy.run_path(str(folder / SCRIPTS[command][0]), run_name="__main__")


def scripts_folder() -> Path:
    """The scripts of ``examples/``: in the package where it was installed, beside it in a clone."""
    package = Path(__file__).parent
    return next(folder for folder in (package / "examples", package.parent / "examples") if folder.is_dir())


if __name__ == "__main__":
    main()
