"""Embed a corpus by many tasks, as ``docsplit embed-corpus``: a script for launchers that ask for a file."""

from docsplit_hf.apps.cli.embed_corpus import run

if __name__ == "__main__":
    run()
