"""Compare encoders and word counts, as ``docsplit evaluate``: a script for launchers that ask for a file."""

from docsplit_hf.apps.cli.evaluate import run

if __name__ == "__main__":
    run()
