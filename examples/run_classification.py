"""Fine-tune a classifier, as ``docsplit train``: a script for launchers that ask for a file."""

from docsplit_hf.apps.cli.train import run

if __name__ == "__main__":
    run()
