import numpy as np
import pytest

from docsplit_hf.classification.metrics import classification_metrics, describe_parts


def test_closed_forms():
    labels = np.array([0, 1, 2, 2])
    uniform = classification_metrics(np.full((4, 3), 1 / 3), labels)
    assert uniform["log_loss"] == pytest.approx(np.log(3))
    perfect = classification_metrics(np.eye(3)[labels], labels)
    assert (perfect["accuracy"], perfect["macro_f1"]) == (1, 1) and perfect["log_loss"] == pytest.approx(0, abs=1e-9)
    always_two = classification_metrics(np.tile([0.1, 0.1, 0.8], (4, 1)), labels)
    assert always_two["accuracy"] == 0.5 and always_two["macro_f1"] == pytest.approx((0 + 0 + 2 / 3) / 3)


def test_several_labels():
    labels = np.array([[1, 0], [1, 1]])
    probabilities = np.array([[0.9, 0.2], [0.8, 0.4]])
    metrics = classification_metrics(probabilities, labels)
    assert metrics["accuracy"] == 0.5 and metrics["macro_f1"] == pytest.approx((1 + 0) / 2)
    assert metrics["log_loss"] == pytest.approx(-np.log([0.9, 0.8, 0.8, 0.4]).mean())


def test_a_probability_of_zero_is_a_large_loss_not_an_infinite_one():
    assert 20 < classification_metrics(np.array([[1.0, 0.0]]), np.array([1]))["log_loss"] < 30


def test_nothing_to_evaluate_is_an_error():
    with pytest.raises(ValueError, match="no examples"):
        classification_metrics(np.zeros((0, 2)), np.zeros(0))


def test_the_last_screen_names_all_three_parts():
    metrics = {
        f"test_{p}_{n}": 0.25 for p in ("classifier", "knn", "mixture") for n in ("accuracy", "macro_f1", "log_loss")
    }
    screen = describe_parts(metrics, "test", 1234)
    assert "1,234 test examples" in screen and screen.count("25.0 %") == 6
