"""Label documents in the terminal, as ``docsplit label``: a script for launchers that ask for a file."""

from docsplit_hf.cli.label import run

if __name__ == "__main__":
    run()
