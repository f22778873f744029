"""How many out-of-scope texts ``docsplit serve`` rejects through /v1/systemone, and how many in-scope texts it answers.

    python -m benchmarks.quality.served_rejection --task data/clinc150 --output docs/results/reliability/served.json

The task is a folder with train.jsonl, test.jsonl and oos.jsonl (text, label; also .jsonl.gz). A classifier is fitted on
--per_label examples of each label and served. Each text is the state of a choice among all labels; a null choice is an
abstention. The record has, for each rate of errors that is allowed (x_reject): the share of out-of-scope texts without
an answer, the share of in-scope texts with one, and the errors among these.
"""

import argparse
import gzip
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from transformers import pipeline

import docsplit_hf  # noqa: F401  which registers the pipeline
from benchmarks.served import ServerProcess

RATES = (0.02, 0.05, 0.1)
CLIENTS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--task", type=Path, required=True, help="The folder of the task.")
    add("--per_label", type=int, default=20, help="Examples of a label. Default: %(default)s.")
    add("--in_scope", type=int, default=1_200, help="Test texts of known labels. Default: %(default)s.")
    add("--novelty", type=float, default=0.05, help="In-scope texts that may be lost as novel. Default: %(default)s.")
    add("--classifier", type=Path, help="A folder to keep the classifier in, and to use again.")
    add("--output", type=Path, help="A JSON file for the record.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = options.classifier or Path(home, "classifier")
        if not (folder / "datastore").is_dir():
            save_classifier(options.task, options.per_label, folder)
        record = measure(folder, options.task, options.in_scope, options.novelty, Path(home, "log"))
    record = {"task": options.task.name, "per_label": options.per_label, "novelty": options.novelty, **record}
    text = json.dumps(record, indent=1)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")
    print(text)


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a file of a task."""
    plain = folder / f"{name}.jsonl"
    path = plain if plain.exists() else folder / f"{name}.jsonl.gz"
    opened = path.open(encoding="utf-8") if path == plain else gzip.open(path, "rt", encoding="utf-8")
    with opened as lines:
        return [json.loads(line) for line in lines]


def save_classifier(task: Path, per_label: int, folder: Path) -> None:
    """Fit a classifier on the first examples of each label in a fixed random order."""
    rows = rows_of(task, "train")
    taken: dict[str, int] = {}
    chosen = []
    for number in np.random.default_rng(0).permutation(len(rows)):
        label = rows[number]["label"]
        if taken.get(label, 0) < per_label:
            taken[label] = taken.get(label, 0) + 1
            chosen.append(rows[number])
    pipe = pipeline("docsplit-knn")
    pipe.add_examples([row["text"] for row in chosen], [row["label"] for row in chosen])
    print(pipe.fit(show_progress=False))
    pipe.save_pretrained(folder)


def measure(folder: Path, task: Path, in_scope: int, novelty: float, log: Path) -> dict[str, object]:
    """Ask a server of the classifier about all texts, at each rate."""
    foreign = [row["text"] for row in rows_of(task, "oos")]
    test = rows_of(task, "test")
    known = [test[number] for number in np.random.default_rng(1).permutation(len(test))[:in_scope]]
    server = ServerProcess(str(folder), "--reject", "0.1", "--novelty", str(novelty), log=log)
    try:
        server.wait_until_ready()
        _, models = server.send("GET", "/v1/models")
        labels = models["data"][0]["x_labels"]
        results = []
        for rate in RATES:
            begun = time.perf_counter()
            of_foreign = ask(server, foreign, labels, rate)
            of_known = ask(server, [row["text"] for row in known], labels, rate)
            pairs = zip((row["label"] for row in known), of_known, strict=True)
            answered = [(label, choice) for label, choice in pairs if choice is not None]
            results.append(
                {
                    "reject": rate,
                    "out_of_scope_abstained": of_foreign.count(None) / len(foreign),
                    "in_scope_answered": len(answered) / len(known),
                    "errors_among_answered": sum(a != b for a, b in answered) / max(len(answered), 1),
                    "seconds": round(time.perf_counter() - begun, 1),
                }
            )
        everything = ask(server, [row["text"] for row in known], labels, None)
    finally:
        server.stop()
    accuracy = np.mean([row["label"] == choice for row, choice in zip(known, everything, strict=True)])
    return {
        "labels": len(labels),
        "out_of_scope_texts": len(foreign),
        "in_scope_texts": len(known),
        "accuracy_of_the_best_label": float(accuracy),
        "results": results,
    }


def ask(server: ServerProcess, texts: list[str], labels: list[str], rate: float | None) -> list[str | None]:
    """The choice for each text; None for an abstention. Without a rate, the best label whatever happens."""
    question = {"type": "choice", "instructions": "What is it?", "criteria": dict.fromkeys(labels)}

    def ask_one(text: str) -> str | None:
        body: dict[str, object] = {"state": text, "questions": {"label": question}}
        if rate is not None:
            body["x_reject"] = rate
        status, answer = server.send("POST", "/v1/systemone", body)
        if status != 200:
            raise SystemExit(f"The server refused: {answer}")
        found = answer["answers"]["label"]
        return found["choice"] if rate is not None else max(found["probabilities"], key=found["probabilities"].get)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(ask_one, texts))


if __name__ == "__main__":
    main()
