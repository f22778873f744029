"""What the card of a fitted pipeline says; that of one without experts is as before."""

import pytest

from docsplit_hf.neighbors.card import save_classifier_card


@pytest.fixture
def card(untrained, texts, tmp_path):
    """Fits a pipeline, or not, and gives it with its card."""

    def card(fit, log_history=()):
        untrained.add_examples(texts[:10], ["river", "engine"] * 5)
        untrained.add_documents(texts[10:30])
        if fit:
            untrained.fit(show_progress=False)
        facts = "me/mine", untrained.model.config, untrained.datastore
        save_classifier_card(tmp_path, *facts, log_history=log_history)
        return untrained, (tmp_path / "README.md").read_text()

    return card


def test_it_says_what_the_experts_learned_from_and_what_each_counts(card):
    metrics = {
        f"test_{part}_{name}": 0.25 for part in ("knn", "experts") for name in ("accuracy", "macro_f1", "log_loss")
    }
    pipe, text = card(True, [metrics])
    settings = pipe.datastore.fitted.settings
    assert "6 experts, fitted on them and on 20 documents without labels, are mixed" in text
    learned = "learn from 10 examples and 20 documents without labels. What each counts is the default, moved by what"
    assert learned in text
    for record in settings["measured"]:
        share = settings["shares"].get(record["expert"])
        weight = "" if share is None else f"{share:.2f}"
        assert f"| {record['expert']} | {weight} | {record['accuracy']:.4f} |" in text
    assert "explain=True" in text and "Without the experts: " in text
    assert "| neighbors alone | 0.2500 | 0.2500 | 0.2500 |\n| experts | 0.2500 |" in text
    assert "classifier alone |" not in text


def test_without_fit_it_says_nothing_of_experts(card):
    _, text = card(False)
    assert "the nearest examples decide" in text and "10 examples of 32 dimensions, with their texts. " in text
    assert "expert" not in text and "explain" not in text and "documents" not in text
