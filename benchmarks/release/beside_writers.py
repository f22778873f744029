"""Load a classifier while others save to its folder, and count the loads that mix two saves.

    python -m benchmarks.release.beside_writers --loads 500 --writers 1

Each writer is a process that saves two versions of a classifier in turn, without a pause. k, temperature, weights,
tokenizer, and the numbers of examples and documents tell the version, so that a load which mixes two is seen. What
loads is ``pipeline("docsplit-knn", model=folder)``.

The encoders have the same weights and vocabulary: else the datastore would be refused as one of another encoder, and
the load of two saves would be an error and not a mixture.
"""

from __future__ import annotations

import argparse
import copy
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import torch
import transformers
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase, pipeline

from docsplit_hf import KNNClassifier, KNNClassifierPipeline
from docsplit_hf.encoding.small_bert import train_small_bert_tokenizer

TEXTS = [f"The {thing} of number {i} lies in the {place}." for i, (thing, place) in enumerate(
    [("apple", "garden"), ("iron", "mine"), ("pear", "basket"), ("stone", "river")] * 10
)]  # fmt: skip
LABELS = ["fruit", "mineral"] * 20
# Sizes of version 0; a later version has as many more of each as its number.
LEAST_K = 3
LEAST_TEMPERATURE = 1.0
LEAST_LENGTH = 100
LEAST_EXAMPLES = 20
LEAST_DOCUMENTS = 5


def make_version(version: int, tokenizer: PreTrainedTokenizerBase) -> KNNClassifierPipeline:
    """Make a classifier in which each part identifies its version."""
    torch.manual_seed(0)
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.model_max_length = LEAST_LENGTH + version
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=64, initializer_range=0.2)  # fmt: skip
    names = {0: "fruit", 1: "mineral"}
    model = KNNClassifier.around(BertModel(config), id2label=names, max_length=32, decouple=False)
    torch.nn.init.constant_(model.classifier.bias, float(version))
    model.config.k = LEAST_K + version
    model.config.knn_temperature = LEAST_TEMPERATURE + version
    pipe = KNNClassifierPipeline(model=model, tokenizer=tokenizer, device="cpu")
    examples = LEAST_EXAMPLES + version
    pipe.add_examples(TEXTS[:examples], LABELS[:examples])
    pipe.add_documents([f"A {text}" for text in TEXTS[: LEAST_DOCUMENTS + version]])
    return pipe


def versions_of(pipe: KNNClassifierPipeline) -> set[int]:
    """The versions of the parts of a classifier: one, unless it is a mixture."""
    config = pipe.model.config
    return {
        config.k - LEAST_K,
        int(config.knn_temperature - LEAST_TEMPERATURE),
        int(pipe.model.classifier.bias[0].item()),
        pipe.tokenizer.model_max_length - LEAST_LENGTH,
        len(pipe.datastore) - LEAST_EXAMPLES,
        len(pipe.datastore.documents) - LEAST_DOCUMENTS,
    }


def write(folder: Path, pipes: list[KNNClassifierPipeline], saves: Synchronized) -> None:
    """Save versions in turn, without end."""
    while True:
        for pipe in pipes:
            pipe.save_pretrained(folder)
            with saves.get_lock():
                saves.value += 1


def count_loads(folder: Path, loads: int) -> tuple[Counter[str], list[float]]:
    """What came of each load, and the seconds that it took."""
    outcomes: Counter[str] = Counter()
    seconds = []
    for _ in range(loads):
        start = time.perf_counter()
        try:
            found = versions_of(pipeline("docsplit-knn", model=str(folder), device="cpu"))
            outcomes["whole" if len(found) == 1 else "mixed"] += 1
        except Exception as error:  # of any kind: no load may fail, as the folder is never broken
            outcomes[f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"] += 1
        seconds.append(time.perf_counter() - start)
    return outcomes, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=100, help="How often to load. Default: %(default)s.")
    parser.add_argument("--writers", type=int, default=1, help="Processes that save. Default: %(default)s.")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    fork = multiprocessing.get_context("fork")
    writers: list[BaseProcess] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "classifier")
        tokenizer = train_small_bert_tokenizer(TEXTS, vocab_size=200)
        make_version(0, tokenizer).save_pretrained(folder)
        saves = fork.Value("q", 0)
        for number in range(options.writers):
            pipes = [make_version(version, tokenizer) for version in (2 * number, 2 * number + 1)]
            writers.append(fork.Process(target=write, args=(folder, pipes, saves), daemon=True))
            writers[-1].start()
        try:
            while saves.value < 2 * options.writers:
                time.sleep(0.01)
            before = saves.value
            outcomes, seconds = count_loads(folder, options.loads)
            saved = saves.value - before
        finally:
            for writer in writers:
                writer.kill()
                writer.join()
    median = sorted(seconds)[len(seconds) // 2]
    print(f"{options.loads} loads beside {options.writers} writers that saved {saved} times: ", end="")
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()), end="; ")
    print(f"{median:.2f} s a load (median), {max(seconds):.2f} s at most")
    if set(outcomes) != {"whole"}:
        sys.exit("A load was a mixture of two saves, or failed.")


if __name__ == "__main__":
    main()
