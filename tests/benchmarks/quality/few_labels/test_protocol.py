"""The draws: as many of each class, the same by the same seed, and the rest without labels."""

import json

import numpy as np
import pytest

from benchmarks.quality.few_labels.protocol import FEWEST_DOCUMENTS, draw, load_few_labels, rest


@pytest.fixture
def folder(tmp_path):
    rows = [{"text": f"text {i}", "label": f"class_{'ab'[i % 2]}"} for i in range(40)]
    rare = [{"text": f"rare {i}", "label": "rare"} for i in range(FEWEST_DOCUMENTS - 1)]
    for split in ("train", "test"):
        lines = [json.dumps(row | {"text": f"{split} {row['text']}"}) for row in rows + rare]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    (tmp_path / "labels.json").write_text(json.dumps({"class_b": "the second"}))
    return tmp_path


def test_rare_classes_leave_pool_and_test_and_the_others_have_descriptions(folder):
    task = load_few_labels(folder)
    assert task.names == ["class_a", "class_b"] and task.descriptions == ["class a", "the second"]
    for texts, labels in ((task.pool, task.pool_labels), (task.test, task.test_labels)):
        assert len(texts) == 40
        assert [int(text.split()[-1]) % 2 for text in texts] == list(labels)


def test_a_draw_has_as_many_of_each_class_and_the_rest_is_disjoint():
    labels = np.random.default_rng(1).integers(3, size=90)
    rows = draw(labels, 5, 0)
    assert np.bincount(labels[rows]).tolist() == [5, 5, 5]
    assert sorted([*rows, *rest(90, rows)]) == list(range(90))
    assert draw(labels, 5, 0).tolist() == rows.tolist() != draw(labels, 5, 1).tolist()
    assert set(draw(labels, 1, 0)) < set(rows) < set(draw(labels, 20, 0))  # a larger draw has those of a smaller one
    assert len(draw(labels, 0, 0)) == 0 and rest(90, draw(labels, 90, 0)).size == 0
