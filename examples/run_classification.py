"""Make a classifier or use one, as ``docsplit classify``: a script for launchers that ask for a file."""

from docsplit_hf.apps.cli.classify import run

if __name__ == "__main__":
    run()
