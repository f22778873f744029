"""Size and speed of encoders, in float32 by torch and in int8 by OpenVINO, on one thread.

    python -m benchmarks.speed.encoders \\
        docsplit-small-en all-MiniLM-L6-v2 all-mpnet-base-v2 --record output/encoders.jsonl

All embed the same texts, and take turns. A speed is the median over the rounds, in seconds of the processor, which
depend little on other work on the machine. Tokens are those of each encoder, without padding. ``cosine`` compares the
int8 embedding of a text with its float32 embedding: the mean, and the lowest of a hundred texts.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from benchmarks.inputs import load_texts
from benchmarks.speed.side_by_side import ran_on, take_turns
from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.checkpoints.checkpoint import open_checkpoint

PRECISIONS = {"float32": {}, "int8": {"precision": "int8"}}


def processor_seconds(encoder: DocumentEncoder, texts: list[str]):
    """A competitor that encodes all texts and returns the processor's seconds."""

    def run() -> float:
        start = time.process_time()
        encoder.encode(texts, show_progress=False)
        return time.process_time() - start

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="Encoders on the Hub or folders.")
    parser.add_argument("--texts", help="A file with a column 'text'. Default: documentation of installed packages.")
    parser.add_argument("--documents", type=int, default=400, help="Default: %(default)s.")
    parser.add_argument("--max_length", type=int, default=256, help="Tokens read of a text. Default: %(default)s.")
    parser.add_argument("--rounds", type=int, default=5, help="Default: %(default)s.")
    parser.add_argument("--record", type=Path, help="A JSONL file, a line for each encoder and precision.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = load_texts(options.texts, options.documents)
    encoders = {
        (model, precision): DocumentEncoder.from_pretrained(model, max_length=options.max_length, **how)
        for model in options.models
        for precision, how in PRECISIONS.items()
    }
    names = {f"{model} {precision}": encoder for (model, precision), encoder in encoders.items()}
    seconds = take_turns(options.rounds, {name: processor_seconds(encoder, texts) for name, encoder in names.items()})
    embeddings = {key: encoder.encode(texts, show_progress=False) for key, encoder in encoders.items()}
    records = []
    for model, precision in encoders:
        exact = encoders[model, "float32"]
        cosines = np.sum(embeddings[model, precision] * embeddings[model, "float32"], axis=1)
        lengths = exact.tokenizer(texts, truncation=True, max_length=options.max_length)["input_ids"]
        median = seconds.median(f"{model} {precision}")
        records.append({
            "model": Path(model).name,
            "precision": precision,
            "megabytes": Path(open_checkpoint(model).path, "model.safetensors").stat().st_size / 1e6,
            "million_parameters": sum(weights.numel() for weights in exact.model.base_model.parameters()) / 1e6,
            "tokens_per_second": sum(map(len, lengths)) / median,
            "documents_per_second": len(texts) / median,
            "cosine": float(cosines.mean()),
            "cosine_1_percent": float(np.quantile(cosines, 0.01)),
            "documents": len(texts),
            "max_length": options.max_length,
            "ran_on": ran_on(),
        })  # fmt: skip
        print(json.dumps(records[-1]))
    if options.record:
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text("".join(json.dumps(record) + "\n" for record in records))


if __name__ == "__main__":
    main()
