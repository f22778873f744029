"""Documents per second of DocumentEncoder, against sentence-transformers and the pipelines of transformers.

    python -m benchmarks.speed.inference                # embeddings with all-MiniLM-L6-v2, needs no download
    python -m benchmarks.speed.inference --classifier   # pipeline("docsplit-knn") and pipeline("text-classification")
    python -m benchmarks.speed.inference --texts my.jsonl.gz --documents 5000

All have the same weights and mean pooling, and cut at the same length. sentence-transformers and the pipelines of
transformers get 32 documents per batch, which is the default of the first; docsplit_hf takes its own batches. They take
turns. docsplit_hf runs by torch and by OpenVINO; with --openvino_python, sentence-transformers runs in int8 by OpenVINO
too, in an environment of its own, which openvino_rival.py describes. With --classifier, docsplit_hf searches 1,000 of
the documents for neighbors beside; the other has a head alone. The time includes tokenizing. The ratios are medians of
the rounds' ratios, with the least and the greatest.

A line after the table compares the embeddings: in float32 with those of sentence-transformers, by the largest
difference of an element, and in other precisions with our own in float32, by cosines.
"""

import argparse
import contextlib
import json
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Pipeline,
    PretrainedConfig,
    pipeline,
)

from benchmarks.inputs import (
    DEVICE,
    argument_parser,
    describe_model,
    load_texts,
    prepare_checkpoint,
    sentence_transformer,
)
from benchmarks.speed.side_by_side import Pair, comparison, forward_flops, ran_on, take_turns, timed, write_record
from docsplit_hf import DocumentEncoder, KNNClassifier, KNNClassifierPipeline, load_package_documentation
from docsplit_hf.encoders.backends.openvino.export import PACKAGES

Run = Callable[[list[str]], object]

BATCH = 32  # the default of sentence-transformers
EXAMPLES = 1_000  # rows of the datastore
LABELS = {i: f"label {i}" for i in range(20)}
OURS = "docsplit_hf"
THEIRS = "sentence-transformers"
THEIRS_INT8 = f"{THEIRS}, openvino int8"
FEATURES = 'pipeline("feature-extraction")'
OURS_KNN = 'pipeline("docsplit-knn")'
CLASSIFICATION = 'pipeline("text-classification")'


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--documents", type=int, default=2000, help="How many. Default: %(default)s.")
    parser.add_argument("--classifier", action="store_true", help="Measure classification in place of embeddings.")
    parser.add_argument("--openvino_python", help="The Python of an environment for sentence-transformers' int8.")
    parser.add_argument("--record", type=Path, help="A JSONL file to add the seconds of every round to.")
    options = parser.parse_args()
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)  # no warnings of truncation, which is the same for all
    texts = load_texts(options.texts, options.documents)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        config = prepare_checkpoint(options, folder)
        if options.classifier:
            competitors = classifiers(options, folder, texts)
            pairs = knn_pairs()
        else:
            competitors = encoders(options, folder, texts)
            pairs = encoder_pairs()
        lengths, flops = operations(options, folder, texts)
        clocks = {name: timed(partial(run, texts)) for name, run in competitors.items()}
        if options.openvino_python:
            clocks[THEIRS_INT8] = stack.enter_context(openvino_rival(options, folder, texts))
            pairs.append((f"{OURS}, int8", THEIRS_INT8))
        measure(options, config, lengths, flops, clocks, pairs)
        if not options.classifier:
            print(f"\n{differences(competitors, texts)}")


def measure(
    options: argparse.Namespace,
    config: PretrainedConfig,
    lengths: Sequence[int],
    flops: float,
    clocks: Mapping[str, Callable[[], float]],
    pairs: Sequence[Pair],
) -> None:
    """Time the competitors, and print the setting and the table of speeds."""
    print(
        f"{describe_model(options, config)}. {len(lengths):,} documents of {min(lengths)} to {max(lengths)} tokens, "
        f"{np.mean(lengths):.0f} on average, cut at {options.max_length}. Median of {options.rounds} rounds."
    )
    print(f"{ran_on()}\n")
    seconds = take_turns(options.rounds, clocks)
    if options.record:
        write_record(
            options.record,
            seconds,
            len(lengths),
            pairs,
            measured="classification" if options.classifier else "inference",
            max_length=options.max_length,
        )
    print(comparison(seconds, len(lengths), pairs, {name: flops for name in clocks if name.endswith("bf16")}))


def encoder_pairs() -> list[tuple[str, str]]:
    same = [(f"{OURS}, {precision}", f"{THEIRS}, {precision}") for precision in ("fp32", "bf16")]
    faster = ("bf16", "openvino fp32", "openvino bf16", "int8")
    across = [(f"{OURS}, {precision}", f"{THEIRS}, fp32") for precision in faster]
    return [*same, *across, (f"{OURS}, fp32", FEATURES), (f"{OURS}, bf16", FEATURES)]


def knn_pairs() -> list[tuple[str, str]]:
    same = [(f"{OURS_KNN}, {precision}", f"{CLASSIFICATION}, {precision}") for precision in ("fp32", "bf16")]
    return [*same, (f"{OURS_KNN}, bf16", f"{CLASSIFICATION}, fp32")]


def encoders(options: argparse.Namespace, folder: str, texts: list[str]) -> dict[str, Run]:
    ours = DocumentEncoder.from_pretrained(folder, pooling="mean", max_length=options.max_length, device=DEVICE)
    competitors: dict[str, Run] = {
        f"{OURS}, fp32": lambda texts: ours.encode(texts, show_progress=False),
        f"{OURS}, bf16": lambda texts: ours.encode(texts, show_progress=False, bf16=True),
    }
    for name, precision in (("openvino fp32", "float32"), ("openvino bf16", "bfloat16"), ("int8", "int8")):
        compiled = DocumentEncoder.from_pretrained(
            folder, pooling="mean", max_length=options.max_length, backend="openvino", precision=precision
        )
        competitors[f"{OURS}, {name}"] = lambda texts, compiled=compiled: compiled.encode(texts, show_progress=False)
    for precision, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        theirs = sentence_transformer(folder, options.max_length, dtype)
        competitors[f"{THEIRS}, {precision}"] = lambda texts, theirs=theirs: theirs.encode(
            texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False
        )
    return competitors | {FEATURES: feature_extraction(options, folder)}


def feature_extraction(options: argparse.Namespace, folder: str) -> Run:
    extract = pipeline(
        "feature-extraction", model=folder, device=DEVICE, dtype="float32", batch_size=BATCH, return_tensors=True,
        tokenize_kwargs={"truncation": True, "max_length": options.max_length},
    )  # fmt: skip

    def embed(texts: list[str]) -> np.ndarray:
        # From a generator the pipeline yields states one by one, so that those of all texts are never in memory at
        # once. The mean includes the padding, since only the time is measured.
        one_by_one = (text for text in texts)
        return normalize(torch.stack([states[0].mean(0) for states in extract(one_by_one)])).numpy()

    return embed


def classifiers(options: argparse.Namespace, folder: str, texts: list[str]) -> dict[str, Run]:
    ours = knn_pipeline(options, folder, texts)
    return {
        f"{OURS_KNN}, fp32": ours,
        f"{OURS_KNN}, bf16": lambda texts: ours(texts, bf16=True),
        f"{CLASSIFICATION}, fp32": stock_pipeline(options, folder, "float32"),
        f"{CLASSIFICATION}, bf16": stock_pipeline(options, folder, "bfloat16"),
    }


def knn_pipeline(options: argparse.Namespace, folder: str, texts: list[str]) -> KNNClassifierPipeline:
    model = KNNClassifier.from_encoder(
        folder, id2label=LABELS, pooling="mean", max_length=options.max_length, decouple=False, normalize=True
    )
    pipe = KNNClassifierPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(folder), device=DEVICE)
    examples = texts[:EXAMPLES]
    pipe.add_examples(examples, [LABELS[i % len(LABELS)] for i in range(len(examples))])
    return pipe


def stock_pipeline(options: argparse.Namespace, folder: str, dtype: str) -> Pipeline:
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(LABELS), dtype=dtype)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return pipeline(
        "text-classification", model=model, tokenizer=tokenizer, device=DEVICE, batch_size=BATCH, truncation=True,
        max_length=options.max_length,
    )  # fmt: skip


def operations(options: argparse.Namespace, folder: str, texts: list[str]) -> tuple[list[int], float]:
    """The number of tokens of each document, and the encoder's operations for all of them."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    lengths = [len(ids) for ids in tokenizer(texts, truncation=True, max_length=options.max_length)["input_ids"]]
    return lengths, forward_flops(AutoModel.from_pretrained(folder), lengths)


@contextlib.contextmanager
def openvino_rival(options: argparse.Namespace, folder: str, texts: list[str]) -> Iterator[Callable[[], float]]:
    """A process with sentence-transformers' int8, calibrated on the same kind of text; yields the timing function."""
    with tempfile.TemporaryDirectory() as given:
        checkpoint = Path(given, "checkpoint")
        shutil.copytree(folder, checkpoint)
        Path(given, "texts.json").write_text(json.dumps(texts))
        calibration = load_package_documentation(PACKAGES, test_size=300)["test"]["text"]
        Path(given, "train.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in calibration))
        script = Path(__file__).with_name("openvino_rival.py")
        arguments = [str(checkpoint), str(options.max_length), str(torch.get_num_threads()), given]
        command = [options.openvino_python, str(script), *arguments]
        without_ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with subprocess.Popen(
            command, env=without_ours, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            line = ""
            while line != "ready":
                line = process.stdout.readline().strip()
                if not line and process.poll() is not None:
                    raise SystemExit(f"{' '.join(command)} failed: nothing is measured.")

            def run() -> float:
                process.stdin.write("go\n")
                process.stdin.flush()
                return float(process.stdout.readline())

            yield run


def differences(competitors: dict[str, Run], texts: list[str]) -> str:
    ours = competitors[f"{OURS}, fp32"](texts)
    theirs = competitors[f"{THEIRS}, fp32"](texts)
    precisions = []
    for name in ("bf16", "openvino bf16", "int8"):
        cosines = (competitors[f"{OURS}, {name}"](texts) * ours).sum(1)
        precisions.append(f"{name} {cosines.mean():.5f} (least {cosines.min():.5f})")
    return (
        f"Largest difference from {THEIRS} in float32: {np.abs(ours - theirs).max():.1e}. "
        f"Mean cosine to our own float32: {', '.join(precisions)}."
    )


if __name__ == "__main__":
    main()
