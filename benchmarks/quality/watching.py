"""How often pipe.measure_drift() finds a change: without a change, and with a new topic mixed in.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.watching --tasks bbc_news

A task is a folder with train.jsonl and test.jsonl (text, label). In each run one class is left out, and the datastore
gets 20 examples of each other class, and the other documents of these classes except the incoming ones. The incoming
texts are 200 of the known classes, a share of them replaced by texts of the class that was left out. The table has the
share of runs with an interval that excludes 0.
"""

import numpy as np
from tqdm.auto import tqdm

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import task_parser
from benchmarks.quality.few_labels.protocol import FewLabels, draw, load_few_labels
from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.drift.measure_drift import known_words, measure_period, sample
from docsplit_hf.fitting.drift.report import MEASURES, mean_change
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts
from docsplit_hf.training.markdown import table

PER_LABEL = 20
INCOMING = 200
SHARES = (0.0, 0.1, 0.3)  # of texts of the class that was left out


def main() -> None:
    parser = task_parser(__doc__)
    add = parser.add_argument
    add("--runs", type=int, default=100, help="Default: %(default)s.")
    add("--pool", type=int, default=2_000, help="Most training texts. Default: %(default)s.")
    options = parser.parse_args()
    lines = []
    for folder in options.tasks:
        task = load_few_labels(folder, options.pool)
        embedder = Embedder(options.encoder, task, options.embeddings)
        embeddings = embedder.embed(task.pool)
        found = np.array([run(task, embeddings, seed) for seed in tqdm(range(options.runs), desc=task.name)])
        for share, off in zip(SHARES, found.mean(0), strict=True):
            lines.append((task.name, f"{share:.0%}", *(f"{value:.0%}" for value in off)))
    heads = ("task", "texts of a new class", *(name.replace("_", " ") for name in MEASURES), "any")
    text = f"# Watching\n\n{table(heads, lines)}"
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "watching.md").write_text(text + "\n", encoding="utf-8")
    print(text)


def run(task: FewLabels, embeddings: np.ndarray, seed: int) -> list[list[bool]]:
    """For each share of texts of a new class: whether each measure changed, and whether any did."""
    rng = np.random.default_rng(seed)
    is_new = task.pool_labels == rng.integers(len(task.names))
    examples = draw(task.pool_labels, PER_LABEL, seed)
    examples = examples[~is_new[examples]]
    others = rng.permutation(np.setdiff1d(np.flatnonzero(~is_new), examples))
    incoming = others[:INCOMING]
    documents = others[INCOMING:]
    texts = np.array(task.pool, dtype=object)
    new = rng.permutation(np.flatnonzero(is_new))
    names = [task.names[label] for label in task.pool_labels[examples]]
    store = KNNDatastore(embeddings[examples], names, [], texts[examples])
    store.add_documents(embeddings[documents], texts[documents])
    store.fitted = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
    ready = prepare_experts(store.snapshot)
    known = known_words(store.snapshot)
    rows = documents[sample(np.arange(len(documents)))]
    then = measure_period(ready, known, embeddings[rows], texts[rows].tolist(), None)
    found = []
    for share in SHARES:
        count = round(share * INCOMING)
        rows = np.concatenate([incoming[count:], new[:count]])
        now = measure_period(ready, known, embeddings[rows], texts[rows].tolist(), None)
        changed = [mean_change(getattr(now, name), getattr(then, name)).is_certain for name in MEASURES]
        found.append([*changed, any(changed)])
    return found


if __name__ == "__main__":
    main()
