"""Pretrain a document encoder as ``docsplit pretrain``, also with the papers' baselines as objectives.

    python -m experiments.pretrain --objective momentum_contrast --views cropping --pooling mean \\
        --dataset_name documents.jsonl --output_dir output/contriever_moco

On several GPUs: accelerate launch -m experiments.pretrain.
"""

from typing import Any

from docsplit_hf.apps.cli import pretrain
from docsplit_hf.apps.cli.run_command import HOW_TO_RESUME, run_script

from .baselines.objectives import register


def main() -> dict[str, Any]:
    """Run the command with the baselines among its objectives; return its figures."""
    register()
    return pretrain.main()


if __name__ == "__main__":
    run_script(main, HOW_TO_RESUME)
