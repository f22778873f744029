"""Tables of the distillation study, and its teacher, which embeds each text once."""

import numpy as np
import pytest

from experiments.study.distillation import RATE, CachedTeacher, Measured, difference, distillation_table
from experiments.study.study_runs import TASKS


def record(student, seed, f1, missed, cosine):
    return {
        "name": f"{student}/{seed}",
        "student": student,
        "rate": RATE,
        "seed": seed,
        "steps": 1,
        "few_shot": {task: [f1, f1 + 0.1] for task in TASKS},
        "teacher_cosine": cosine,
        "documents": 4,
        "not_found_first": missed,
    }


RECORDS = [
    record("halves", 0, 0.2, [0, 1], 0.5),
    record("halves", 1, 0.4, [0], 0.7),
    record("halves_contrast_1", 0, 0.3, [], 0.4),
]


def test_few_shot_scores_are_means_over_seeds_by_draw():
    halves = Measured(RECORDS, "halves", RATE)
    assert halves.few_shot() == pytest.approx([30, 40])
    assert halves.cosine() == pytest.approx(0.6)
    assert halves.found().tolist() == [0, 50, 100, 100]


def test_a_student_is_compared_with_the_same_seeds_only():
    lines = distillation_table(RECORDS).splitlines()
    cells = [cell.strip() for cell in next(line for line in lines if "contrast_1" in line).strip("|").split("|")]
    assert cells[:3] == ["halves_contrast_1", "0.0007", "1"]
    assert cells[7] == "35.0" and cells[8] == "+10.0 ± 0.0"  # 30 and 40, where halves of seed 0 have 20 and 30
    assert cells[9:11] == ["0.400", "100.0"] and cells[11].startswith("+50.0 ± ")


def test_equal_scores_have_a_dash_as_their_difference():
    assert difference(np.ones(3), np.ones(3)) == "–"


def test_the_teacher_embeds_each_text_once():
    embedded = []

    class Encoder:
        def encode(self, texts, show_progress):
            embedded.extend(texts)
            return np.array([[len(text)] for text in texts], np.float32)

    teacher = CachedTeacher(Encoder())
    assert teacher.encode(["a", "bb", "a"], show_progress=False).tolist() == [[1], [2], [1]]
    assert teacher.encode(["ccc", "bb"], show_progress=False).tolist() == [[3], [2]]
    assert embedded == ["a", "bb", "ccc"]
