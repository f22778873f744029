"""The best shrinkage for halves of held-out documents, by two criteria without labels.

    python -m benchmarks.quality.projection_shrinkage --encoders MiniLM=sentence-transformers/all-MiniLM-L6-v2 \\
        --tasks 20News=data/20news BBCNews=data/bbc_news --output_dir output/projection

It uses the cached embeddings of benchmarks/quality/projection.py, and writes shrinkage.json beside its results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from benchmarks.quality.projection import FOLDS, SEED, SETTINGS, cca, choose_shrinkage, load_task, order
from docsplit_hf import DocumentEncoder
from docsplit_hf.evaluation.systems import EncoderWithOptions
from docsplit_hf.pretraining.half_retrieval import half_texts
from experiments.evaluation.systems import EncoderSystem

DOCUMENTS = (100, 300, 1000, None)
CCA_SHRINKAGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
TEMPERATURE = 0.05


def info_nce_of_cca(first: np.ndarray, second: np.ndarray, shrinkage: float) -> float:
    """InfoNCE of finding the other half of a held-out document, the mean over folds."""
    fold = order(first) % FOLDS
    losses = []
    for number in range(FOLDS):
        held_out = fold == number
        mapped = cca(first[~held_out], first[~held_out], second[~held_out], shrinkage)
        scores = mapped(first[held_out]) @ mapped(second[held_out]).T / TEMPERATURE
        losses.append(np.mean(logsumexp(scores, axis=1) - scores.diagonal()))
    return float(np.mean(losses))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", required=True, help="Names or folders, or NAME=FOLDER.")
    parser.add_argument("--tasks", nargs="+", required=True, help="NAME=FOLDER each, as in docsplit evaluate.")
    parser.add_argument("--output_dir", type=Path, default="output/projection", help="Default: %(default)s.")
    parser.add_argument("--cache_dir", type=Path, help="Where embeddings are kept. Default: in the output folder.")
    options = parser.parse_args()
    rows = []
    for named in options.encoders:
        name, _, path = named.partition("=")
        encoder = DocumentEncoder.from_pretrained(path or name, max_length=SETTINGS.max_length)
        cache = options.cache_dir or options.output_dir / "embeddings"
        system = EncoderSystem(name, EncoderWithOptions(encoder, bf16=True), cache)
        for task in options.tasks:
            first_texts, second_texts = half_texts(load_task(task).train_texts, SEED, show_progress=False)
            [halves] = system.features([*first_texts, *second_texts])
            first = halves[: len(first_texts)]
            second = halves[len(first_texts) :]
            for most in DOCUMENTS:
                chosen = order(first)[:most]
                shrinkage, error = choose_shrinkage(first[chosen], second[chosen], SEED)
                losses = {each: info_nce_of_cca(first[chosen], second[chosen], each) for each in CCA_SHRINKAGES}
                row = {
                    "encoder": name,
                    "task": task.partition("=")[0],
                    "documents": len(chosen),
                    "projection": shrinkage,
                    "error": round(error, 3),
                    "cca_by_info_nce": min(losses, key=losses.get),
                }
                rows.append(row)
                print(row, flush=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    (options.output_dir / "shrinkage.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
