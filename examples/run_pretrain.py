"""Pretrain a document encoder, as ``docsplit pretrain``: a script for launchers that ask for a file.

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml examples/run_pretrain.py \
        --dataset_name documents.jsonl --output_dir output/documents
"""

from docsplit_hf.apps.cli.pretrain import run

if __name__ == "__main__":
    run()
