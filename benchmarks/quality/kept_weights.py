"""Encoders between their weights before and after pretraining on a user's documents: do they gain what neither does?

    OMP_NUM_THREADS=1 python -m benchmarks.quality.kept_weights --data SETS --output output/kept_weights
    python -m benchmarks.quality.kept_weights --data SETS --output output/kept_weights --table

Each encoder is pretrained by ``docsplit pretrain`` on the training texts of each corpus, without their labels. A kept
fraction of 1 is the encoder before, of 0 the one after; between them all weights are interpolated linearly. Measured
on the same draws of five labels of each class: macro F1 of the pipeline after ``fit()`` with the other texts as
documents, of a probe, and of the nearest examples; and how often a half of a test document finds the other half.
Finished records are kept.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import draw, load_few_labels, scores
from benchmarks.quality.few_labels.records import add_record, read_records
from benchmarks.quality.few_labels.systems import SYSTEMS
from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.checkpoints.checkpoint import find_checkpoint
from docsplit_hf.pretraining.half_retrieval import half_retrieval_metrics, half_texts
from docsplit_hf.training.markdown import table
from experiments.evaluation.results import summarize

CORPORA = {"20news": "en", "arxiv_abstracts": "en", "ohsumed": "en", "10kgnad": "de"}  # with the language
ENCODERS = ("all-MiniLM-L6-v2", "docsplit-small-en")
KEPT = (1.0, 0.75, 0.5, 0.25, 0.0)
MEASURED = ("ours", "probe", "two_way")
PER_LABEL = 5
POOL = 1_500
TEST = 500
HALVED = 500
WEIGHTS = "model.safetensors"
TRAINING = (
    *("--views_kwargs", '{"parts": 3, "max_tokens": 62}', "--max_length", "64", "--mlm_weight", "0"),
    *("--pooling", "mean", "--per_device_train_batch_size", "128", "--learning_rate", "1e-4"),
    *("--warmup_steps", "10", "--bf16", "--test_size", "0", "--save_strategy", "no", "--use_cpu"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="A folder with a folder of each corpus.")
    add("--corpora", nargs="+", default=list(CORPORA), help="Default: %(default)s.")
    add("--encoders", nargs="+", default=list(ENCODERS), help="Default: %(default)s.")
    add("--kept", nargs="+", type=float, default=list(KEPT), help="Fractions of the old weights. Default: %(default)s.")
    add("--steps", type=int, default=80, help="Steps of pretraining. Default: %(default)s.")
    add("--draws", type=int, default=3, help="Of the examples. Default: %(default)s.")
    add("--output", type=Path, required=True, help="Folder for encoders, embeddings, and kept_weights.jsonl.")
    add("--table", action="store_true", help="Print the table of the records, and measure nothing.")
    options = parser.parse_args()
    if not options.table:
        for name in options.encoders:
            for corpus in options.corpora:
                measure(name, corpus, options)
    print_table(options.output / "kept_weights.jsonl")


def measure(name: str, corpus: str, options: argparse.Namespace) -> None:
    """Pretrain an encoder on a corpus, and measure it and its mixtures."""
    before = Path(default_model() if name == "all-MiniLM-L6-v2" else find_checkpoint(name))
    after = options.output / "pretrained" / f"{name}-{corpus}-{options.steps}"
    if not (after / WEIGHTS).exists():
        pretrain(before, options.data / corpus / "train.jsonl", after, CORPORA.get(corpus, "en"), options.steps)
    records = options.output / "kept_weights.jsonl"
    known = {(record["encoder"], record["corpus"], record["steps"], record["kept"]) for record in read_records(records)}
    for kept in options.kept:
        if (name, corpus, options.steps, kept) in known:
            continue
        folder = options.output / "interpolated"
        interpolate(before, after, kept, folder)
        found = measure_encoder(folder, options.data / corpus, CORPORA.get(corpus, "en"), options)
        add_record(records, {"encoder": name, "corpus": corpus, "steps": options.steps, "kept": kept} | found)
        print(name, corpus, kept, found, flush=True)


def pretrain(encoder: Path, texts: Path, output: Path, language: str, steps: int) -> None:
    """Pretrain as a user does."""
    command = [sys.executable, "-m", "docsplit_hf", "pretrain", *TRAINING, "--language", language]
    command += ["--model_name_or_path", str(encoder), "--dataset_name", str(texts)]
    command += ["--max_steps", str(steps), "--output_dir", str(output), "--overwrite_output_dir"]
    subprocess.run(command, check=True)


def interpolate(before: Path, after: Path, kept: float, folder: Path) -> None:
    """Write the encoder whose weights are ``kept`` times the old ones and ``1 - kept`` times the new ones."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(before, folder)  # with its settings: pretraining saves the shorter length of its views
    old = load_file(before / WEIGHTS)
    new = load_file(after / WEIGHTS)
    mixed = {}
    for name, weight in old.items():
        trained = new.get(name.removeprefix("bert."))
        # A head is not trained, and not used either.
        mixed[name] = weight.float() if trained is None else torch.lerp(trained.float(), weight.float(), kept)
    untrained = [name for name in old if name.removeprefix("bert.") not in new]
    if len(untrained) > len(old) / 2:
        raise ValueError(f"{after} has no weights named like those of {before}: {', '.join(untrained[:3])}, ...")
    save_file(mixed, folder / WEIGHTS, metadata={"format": "pt"})


def measure_encoder(folder: Path, corpus: Path, language: str, options: argparse.Namespace) -> dict[str, float]:
    """Macro F1 of each system, mean over the draws, and retrieval of halves."""
    task = load_few_labels(corpus, POOL, TEST)
    embedder = Embedder(str(folder), task, options.output / "embeddings", precision="int8", long_documents="first")
    found: dict[str, float] = {}
    for system in MEASURED:
        by_draw = []
        for number in range(options.draws):
            rows = draw(task.pool_labels, PER_LABEL, number)
            answer = SYSTEMS[system](task, rows, embedder, number + 1)  # with 0, they measure their speed, too
            by_draw.append(scores(answer.probabilities, task.test_labels)["macro_f1"])
        found[system] = float(np.mean(by_draw))
        found[f"{system}_by_draw"] = by_draw
    encoder = DocumentEncoder.from_pretrained(str(folder), device="cpu", precision="int8")
    first, second = half_texts(task.test[:HALVED], seed=0, language=language)
    halves = [torch.from_numpy(encoder.encode(texts)) for texts in (first, second)]
    return found | {"half_recall@1": half_retrieval_metrics(*halves)["recall@1"]}


def lines_of(records: Sequence[dict]) -> Iterator[list[str]]:
    """Lines of the table: the change against the encoder before, with half of the 95 % interval over draws."""
    before = {(record["encoder"], record["corpus"]): record for record in records if record["kept"] == 1}
    for record in sorted(records, key=lambda record: (record["encoder"], record["corpus"], -record["kept"])):
        old = before[record["encoder"], record["corpus"]]
        line = [record["encoder"], record["corpus"], f"{record['kept']:g}"]
        for system in MEASURED:
            if record is old:
                line.append(f"{100 * record[system]:.1f}")
                continue
            change = summarize(100 * (np.array(record[f"{system}_by_draw"]) - np.array(old[f"{system}_by_draw"])))
            line.append(f"{change.mean:+.1f} ± {change.interval:.1f}")
        yield [*line, f"{100 * record['half_recall@1']:.1f}"]


def print_table(path: Path) -> None:
    """Print all records."""
    columns = ("encoder", "corpus", "kept", "ours", "probe", "nearest", "halves found (%)")
    print(table(columns, list(lines_of(read_records(path)))))


if __name__ == "__main__":
    main()
