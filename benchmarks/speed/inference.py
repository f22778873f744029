"""Documents per second of DocumentEncoder, against sentence-transformers and the pipelines of transformers.

    python -m benchmarks.speed.inference                # embeddings with all-MiniLM-L6-v2, needs no download
    python -m benchmarks.speed.inference --classifier   # pipeline("docsplit-knn") and pipeline("text-classification")
    python -m benchmarks.speed.inference --texts my.jsonl.gz --documents 5000

All have the same weights and mean pooling, and cut at the same length. On a CPU, sentence-transformers and the
pipelines of transformers get 32 documents per batch, which is the default of the first; on a GPU 32 or 128, whichever
is faster in a trial. docsplit_hf takes its own batches. In bfloat16, the others have weights in bfloat16. They take
turns. docsplit_hf runs by torch and, if installed, in int8 by OpenVINO; with --openvino_python, sentence-transformers
runs in int8 by OpenVINO too, in an environment of its own, which openvino_rival.py describes. With --classifier,
docsplit_hf searches 1,000 of the documents for neighbors beside; the other has a head alone. The time includes
tokenizing. The ratios are medians of the rounds' ratios, with the least and the greatest.

If there are fewer texts than --documents, all of them are embedded. --mixed_lengths cuts each text at a random number
of words, log-normal, from 8 to 400, which gives inputs of all lengths.

A line after the table compares the embeddings: in float32 with those of sentence-transformers, by the largest
difference of an element, and in other precisions with our own in float32, by cosines.
"""

import argparse
import contextlib
import importlib.util
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
from sentence_transformers import SentenceTransformer
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
from docsplit_hf.encoding.backends.openvino.engine import PACKAGES

Run = Callable[[list[str]], object]

BATCHES = (32, 128) if DEVICE == "cuda" else (32,)  # of the others; 32 is the default of sentence-transformers
TRIAL_TEXTS = 1_000
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
    parser.add_argument("--mixed_lengths", action="store_true", help="Cut the texts at random numbers of words.")
    parser.add_argument("--only_bf16", action="store_true", help="Measure embeddings in bfloat16 alone, by torch.")
    parser.add_argument("--classifier", action="store_true", help="Measure classification in place of embeddings.")
    parser.add_argument("--openvino_python", help="The Python of an environment for sentence-transformers' int8.")
    parser.add_argument("--record", type=Path, help="A JSONL file to add the seconds of every round to.")
    options = parser.parse_args()
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)  # no warnings of truncation, which is the same for all
    texts = load_texts(options.texts, options.documents, fewer_are_enough=True)
    if options.mixed_lengths:
        texts = cut_at_random(texts)
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
        pairs = [(ours, other) for ours, other in pairs if ours in clocks and other in clocks]
        measure(options, config, lengths, flops, clocks, pairs)
        if not options.classifier and not options.only_bf16:
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
    if options.only_bf16:
        del competitors[f"{OURS}, fp32"]
    if not options.only_bf16 and has_int8():
        compiled = DocumentEncoder.from_pretrained(
            folder, pooling="mean", max_length=options.max_length, precision="int8"
        )
        competitors[f"{OURS}, int8"] = lambda texts: compiled.encode(texts, show_progress=False)
    for precision, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        if options.only_bf16 and precision == "fp32":
            continue
        theirs = sentence_transformer(folder, options.max_length, dtype)

        def encode(texts: list[str], batch: int, theirs: SentenceTransformer = theirs) -> np.ndarray:
            return theirs.encode(texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False)

        name = f"{THEIRS}, {precision}"
        competitors[name] = at_its_best(name, encode, texts)
    if options.only_bf16:
        return competitors
    return competitors | {FEATURES: at_its_best(FEATURES, feature_extraction(options, folder), texts)}


def has_int8() -> bool:
    """Whether the packages that int8 needs are installed."""
    missing = [needed for needed in ("openvino", "nncf") if importlib.util.find_spec(needed) is None]
    if missing:
        print(f"Left out: {OURS}, int8: {missing[0]} is not installed.", flush=True)
    return not missing


def at_its_best(name: str, run: Callable[[list[str], int], object], texts: list[str]) -> Run:
    """A competitor with the batch that is the fastest in a trial."""
    seconds = {}
    if len(BATCHES) > 1:
        trial = texts[:TRIAL_TEXTS]
        for batch in BATCHES:
            run(trial, batch)
            seconds[batch] = timed(partial(run, trial, batch))()
    best = min(BATCHES, key=lambda batch: seconds.get(batch, 0.0))
    print(f"{name}: {best} documents per batch.", flush=True)
    return partial(run_with_batch, run, best)


def run_with_batch(run: Callable[[list[str], int], object], batch: int, texts: list[str]) -> object:
    return run(texts, batch)


def cut_at_random(texts: list[str]) -> list[str]:
    """Each text cut at a random number of words, log-normal, from 8 to 400."""
    numbers = np.random.default_rng(0).lognormal(4.7, 0.8, len(texts)).clip(8, 400)
    return [" ".join(text.split()[: int(number)]) for text, number in zip(texts, numbers, strict=True)]


def feature_extraction(options: argparse.Namespace, folder: str) -> Callable[[list[str], int], np.ndarray]:
    extract = pipeline(
        "feature-extraction", model=folder, device=DEVICE, dtype="float32", return_tensors=True,
        tokenize_kwargs={"truncation": True, "max_length": options.max_length},
    )  # fmt: skip

    def embed(texts: list[str], batch: int) -> np.ndarray:
        # From a generator the pipeline yields states one by one, so that those of all texts are never in memory at
        # once. The mean includes the padding, since only the time is measured.
        one_by_one = (text for text in texts)
        states_of_texts = extract(one_by_one, batch_size=batch)
        return normalize(torch.stack([states[0].mean(0) for states in states_of_texts])).numpy()

    return embed


def classifiers(options: argparse.Namespace, folder: str, texts: list[str]) -> dict[str, Run]:
    ours = knn_pipeline(options, folder, texts)
    competitors: dict[str, Run] = {
        f"{OURS_KNN}, fp32": ours,
        f"{OURS_KNN}, bf16": lambda texts: ours(texts, bf16=True),
    }
    for precision, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        stock = stock_pipeline(options, folder, dtype)

        def classify(texts: list[str], batch: int, stock: Pipeline = stock) -> object:
            return stock(texts, batch_size=batch)

        name = f"{CLASSIFICATION}, {precision}"
        competitors[name] = at_its_best(name, classify, texts)
    return competitors


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
        "text-classification", model=model, tokenizer=tokenizer, device=DEVICE, truncation=True,
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
    for name in ("bf16", "int8"):
        if f"{OURS}, {name}" not in competitors:
            continue
        cosines = (competitors[f"{OURS}, {name}"](texts) * ours).sum(1)
        precisions.append(f"{name} {cosines.mean():.5f} (least {cosines.min():.5f})")
    return (
        f"Largest difference from {THEIRS} in float32: {np.abs(ours - theirs).max():.1e}. "
        f"Mean cosine to our own float32: {', '.join(precisions)}."
    )


if __name__ == "__main__":
    main()
