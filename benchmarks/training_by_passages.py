"""DocSplit by passages against DocSplit on heads, with as many tokens read.

    python benchmarks/training_by_passages.py --start output/study/start --corpus wikipedia.jsonl --posts data/20news \
        --papers data/aan_pairs --records docs/results/training_by_passages/records.jsonl
    python benchmarks/training_by_passages.py ... --start sentence-transformers/all-MiniLM-L6-v2 \
        --learning_rate 5e-5 --tokens 400000

Each arm trains from the same start until it has read --tokens tokens of articles of 1,000 words and more, by InfoNCE
alone, with mean pooling:

- heads: as many tokens of each half as a passage has, --documents a step;
- one passage: the same, but each half is read at a random passage of the whole document;
- passages: up to four random passages of each half, a quarter of the documents a step, so that steps are as large;
- long: as many tokens of each half as four passages have, in one row, a quarter of the documents a step;
- passages as parts: the document has eight parts in place of two halves, each is read at one passage, and each two are
  positives of one another, a quarter of the documents a step;
- the same with larger batches: four times the documents a step, and a quarter of the steps.

Articles of the few-shot task and of half-document retrieval are not trained on. Each run is a line of --records the
moment it is there, and is not run again. The table of all lines is printed at the end.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from few_labels.records import add_record, read_records
from transformers import AutoTokenizer, PreTrainedModel, set_seed

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
)
from docsplit_hf.models.portable.packing import use_packing
from docsplit_hf.training.markdown import table

sys.path.append(str(Path(__file__).parents[1]))  # for experiments

from long_documents.measure import measure
from long_documents.texts import Texts, load_texts

PASSAGES, MAX_LENGTH = 4, 128
BATCHES_COUNTED = 5  # of which the mean number of tokens gives the steps


class Arm(NamedTuple):
    """How a document is read, and the documents of a step, in multiples of --documents."""

    passages_per_view: int | None
    max_length: int
    documents: float
    parts: int = 2


ARMS = {
    "heads": Arm(None, MAX_LENGTH, 1),
    "one passage": Arm(1, MAX_LENGTH, 1),
    "passages": Arm(PASSAGES, MAX_LENGTH, 1 / PASSAGES),
    "passages as parts": Arm(1, MAX_LENGTH, 1 / PASSAGES, parts=2 * PASSAGES),
    "long": Arm(None, PASSAGES * (MAX_LENGTH - 2) + 2, 1 / PASSAGES),
    "heads, larger batches": Arm(None, MAX_LENGTH, PASSAGES),
    "passages, larger batches": Arm(PASSAGES, MAX_LENGTH, 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--start", required=True, help="An encoder on the Hub or a folder.")
    add("--name", help="What the table calls it. Default: the last part of --start.")
    add("--corpus", required=True, help="Articles: .jsonl with a column text, also .gz.")
    add("--posts", required=True, help="The folder of 20 Newsgroups.")
    add("--papers", required=True, help="The folder of papers and pairs of them.")
    add("--records", type=Path, required=True, help="Where the results are kept, as JSON lines.")
    add("--arms", nargs="*", choices=ARMS, default=list(ARMS), help="Default: all.")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2], help="Of the training. Default: 0 1 2.")
    add("--tokens", type=int, default=800_000, help="To read in training. Default: %(default)s.")
    add("--documents", type=int, default=32, help="Of a step. Default: %(default)s.")
    add("--learning_rate", type=float, default=1e-3, help="Default: %(default)s.")
    add("--per_class", type=int, default=60, help="Most texts of a class. Default: %(default)s.")
    add("--most_articles", type=int, default=4000, help="To train on. Default: %(default)s.")
    add("--most_papers", type=int, default=600, help="Default: %(default)s.")
    options = parser.parse_args()
    name = options.name or Path(options.start).name
    tokenizer = AutoTokenizer.from_pretrained(options.start)
    limits = {name: getattr(options, name) for name in ("most_articles", "per_class", "most_papers")}
    texts = load_texts(options.corpus, options.posts, options.papers, tokenizer, **limits)
    runs = [("start", 0), *((arm, seed) for seed in options.seeds for arm in options.arms)]
    training = {name: getattr(options, name) for name in ("tokens", "documents", "learning_rate")}
    for arm, seed in runs:
        key = {"start": name, "arm": arm, "seed": seed} | limits | ({} if arm == "start" else training)
        if any(record.items() >= key.items() for record in read_records(options.records)):
            continue
        record = key | run(arm, seed, options, texts)
        add_record(options.records, record)
        print(arm, seed, record, flush=True)
    print(report(read_records(options.records)))


def run(arm: str, seed: int, options: argparse.Namespace, texts: Texts) -> dict:
    """Train an arm and measure it; of "start", measure the start."""
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(options.start)
    model = AutoModelForDocSplit.from_pretrained(options.start, pooling="mean", mlm_head=False)
    use_packing(model)
    reading = ARMS.get(arm, ARMS["passages"])
    collator = DataCollatorForDocSplit(
        tokenizer,
        reading.max_length,
        0,
        seed=seed,
        views_kwargs={"parts": reading.parts},
        passages_per_view=reading.passages_per_view,
    )
    documents = round(reading.documents * options.documents)
    trained = {} if arm == "start" else train(model, collator, documents, seed, options, texts)
    return trained | {"metrics": measure(model, collator, texts)}


def train(
    model: PreTrainedModel,
    collator: DataCollatorForDocSplit,
    documents: int,
    seed: int,
    options: argparse.Namespace,
    texts: Texts,
) -> dict:
    """Train in place, and say what was read in which time."""
    batches = (texts.training.select(range(i * documents, (i + 1) * documents)) for i in range(BATCHES_COUNTED))
    tokens = np.mean([int(collator(list(batch))["attention_mask"].sum()) for batch in batches])
    steps = round(options.tokens / tokens)
    with tempfile.TemporaryDirectory() as folder:
        arguments = ContrastiveTrainingArguments(
            folder,
            max_steps=steps,
            warmup_steps=steps // 10,
            per_device_train_batch_size=documents,
            learning_rate=options.learning_rate,
            mlm_weight=0,
            bf16=True,
            use_cpu=True,
            seed=seed,
            logging_steps=steps,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = ContrastiveTrainer(model, arguments, texts.training, data_collator=collator)
        began = time.perf_counter()
        trainer.train()
    loss = trainer.state.log_history[0]["contrastive_loss"]
    return {"steps": steps, "read": round(steps * tokens), "seconds": round(time.perf_counter() - began), "loss": loss}


def report(records: list[dict]) -> str:
    """A table with a row for each arm of each start: the mean over the seeds, and their standard deviation."""
    of_arm: dict[tuple, list[dict]] = {}
    for record in records:
        how = [record["start"], record["arm"], *(str(record.get(key, "–")) for key in ("tokens", "learning_rate"))]
        of_arm.setdefault(tuple(how), []).append(record["metrics"])
    names = list(records[0]["metrics"])
    rows = [
        (*how, str(len(runs)), *(cell([run[name] for run in runs]) for name in names)) for how, runs in of_arm.items()
    ]
    return table(["start", "arm", "tokens", "learning rate", "seeds", *names], rows)


def cell(values: list[float]) -> str:
    spread = f" ± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
