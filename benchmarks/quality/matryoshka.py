"""The accuracy of an encoder's first dimensions: few-shot macro F1 with some of them against all.

    docsplit pretrain --dataset_name articles.jsonl --matryoshka_dims 128 64 --output_dir output/nested
    docsplit pretrain --dataset_name articles.jsonl --output_dir output/plain
    python -m benchmarks.quality.matryoshka 20news bbc_news --encoders output/nested output/plain --dims 256 128 64

Each folder has train.jsonl and test.jsonl with the columns text and label. The same examples are drawn for all.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.quality.few_shot_probe import few_shot_scores, labeled_texts
from docsplit_hf import DocumentEncoder
from docsplit_hf.training.markdown import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="Folders with train.jsonl and test.jsonl.")
    parser.add_argument("--encoders", nargs="+", required=True, help="Encoders on the Hub or folders.")
    parser.add_argument("--dims", nargs="+", type=int, required=True, help="All dimensions, then fewer.")
    parser.add_argument("--shots", type=int, default=10, help="Examples per class. Default: %(default)s.")
    parser.add_argument("--seeds", type=int, default=10, help="Draws of examples. Default: %(default)s.")
    options = parser.parse_args()
    rows = []
    for name in options.encoders:
        scores = mean_scores(DocumentEncoder.from_pretrained(name, device="cpu"), options)
        for kind, values in zip(("linear probe", "neighbors"), scores, strict=True):
            cells = [f"{100 * value:.1f} ({100 * value / values[0]:.1f} %)" for value in values]
            rows.append((Path(name).name, kind, *cells))
    print(table(("", "", *(f"{dim} dimensions" for dim in options.dims)), rows))


def mean_scores(encoder: DocumentEncoder, options: argparse.Namespace) -> np.ndarray:
    """Macro F1 of both classifiers ``(2, dims)``, mean over the folders."""
    found = []
    for folder in options.folders:
        train_texts, labels = labeled_texts(folder, "train")
        test_texts, test_labels = labeled_texts(folder, "test")
        train = encoder.encode(train_texts)
        test = encoder.encode(test_texts)
        by_dimensions = [
            few_shot_scores(
                _leading(train, dim),
                _leading(test, dim),
                labels,
                test_labels,
                shots=options.shots,
                seeds=options.seeds,
            )
            for dim in options.dims
        ]
        found.append(by_dimensions)
    return np.mean(found, axis=0).T


def _leading(embeddings: np.ndarray, dim: int) -> np.ndarray:
    """The embeddings that ``encode(truncate_dim=dim)`` gives."""
    leading = embeddings[:, :dim]
    return leading / np.linalg.norm(leading, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
