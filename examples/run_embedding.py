"""Embed the texts of a file, as ``docsplit embed``: a script for launchers that ask for a file."""

from docsplit_hf.apps.cli.embed import run

if __name__ == "__main__":
    run()
