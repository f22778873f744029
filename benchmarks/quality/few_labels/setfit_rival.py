"""SetFit on the examples of one draw, in the rivals' environment: reads JSON from stdin, and writes it to a file."""

import json
import sys
import tempfile
from time import perf_counter, process_time

import numpy as np
from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

# The settings among which setfit_tuned chooses, on half of the examples: the defaults, two epochs, a lower rate.
GRID = ({}, {"num_epochs": 2}, {"body_learning_rate": 1e-5})


def fit(given, texts, labels, options):
    """A fitted model."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, seed=given["seed"], save_strategy="no", report_to="none", show_progress_bar=False, **options
        )
        model = SetFitModel.from_pretrained(given["model"])
        trainer = Trainer(model, arguments, train_dataset=Dataset.from_dict({"text": texts, "label": labels}))
        trainer.train()
    return model


def choose(given):
    """The best of the grid by log loss on held-out examples; the defaults if a class has only one example."""
    texts = given["texts"]
    labels = given["labels"]
    options = given["options"]
    if not given["tuned"] or np.bincount(labels).min() < 2:
        return options
    inner, outer, y, held_out = train_test_split(texts, labels, test_size=0.5, stratify=labels, random_state=0)

    def loss(candidate):
        return log_loss(held_out, fit(given, inner, y, options | candidate).predict_proba(outer, as_numpy=True))

    return options | min(GRID, key=loss)


given = json.load(sys.stdin)
wall = perf_counter()
cpu = process_time()
options = choose(given)
model = fit(given, given["texts"], given["labels"], options)
fitted = {"fit_seconds": perf_counter() - wall, "fit_cpu_seconds": process_time() - cpu, "settings": options}
start = perf_counter()
probabilities = model.predict_proba(given["test"], as_numpy=True)
answer = {
    "documents_per_second": len(given["test"]) / (perf_counter() - start),
    "probabilities": probabilities.tolist(),
}
with open(sys.argv[1], "w") as file:
    json.dump(fitted | answer, file)
