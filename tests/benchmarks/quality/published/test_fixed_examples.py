"""Systems on given examples: nothing is left of the fit before."""

import argparse

import numpy as np

from benchmarks.quality.published.fixed_examples import by_fit, embedder_of, interval_of_mean
from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_FOLDER

FRUIT = ["A ripe apple is red.", "Pears and plums are sweet.", "She peeled an orange.", "Bananas are yellow."]
METAL = ["Iron rusts in the rain.", "Copper wires carry current.", "Gold is a heavy metal.", "Steel is an alloy."]


def test_a_second_fit_knows_nothing_of_the_first(tmp_path):
    options = argparse.Namespace(model=str(DEFAULT_FOLDER), precision="float32", embeddings=tmp_path)
    embedder = embedder_of(options, FRUIT + METAL)
    examples = [*FRUIT[:2], *METAL[:2]]
    tests = [*FRUIT[2:], *METAL[2:]]
    first = by_fit(embedder, examples, ["fruit", "fruit", "metal", "metal"], tests)
    by_fit(embedder, examples, ["wrong", "right", "wrong", "right"], tests, documents=tests)
    assert set(first) <= {"fruit", "metal"}
    assert (by_fit(embedder, examples, ["fruit", "fruit", "metal", "metal"], tests) == first).all()
    pipe = embedder.pipeline()
    pipe.add_examples(examples, ["fruit", "fruit", "metal", "metal"])
    pipe.fit(show_progress=False)
    assert [answer["label"] for answer in pipe(tests)] == first.tolist()


def test_the_interval_holds_the_mean():
    values = np.array([60.0, 70.0, 80.0, 90.0])
    low, high = interval_of_mean(values)
    assert 60 < low < values.mean() < high < 90
