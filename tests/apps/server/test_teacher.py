"""The server as the teacher of another classifier."""

import numpy as np
import pytest
from transformers import BertModel, pipeline

from docsplit_hf.classifier.teacher.endpoint_teacher import load_teacher
from docsplit_hf.classifier.teacher.protocols import Option

from ...conftest import make_text
from .conftest import LABELS


@pytest.mark.parametrize("protocol", ["systemone", "decisions"])
def test_a_teacher_gets_the_probabilities_of_the_classifier(shared_server, loaded, protocol):
    texts = [make_text(number, sentences=3) for number in range(300, 312)]
    options = [Option(name, "A text about it.") for name in LABELS]
    teacher = load_teacher(f"{shared_server.address}/v1#subjects#protocol={protocol}")
    found = teacher.ask(texts, options, show_progress=False)
    answers = loaded(texts, top_k=None)
    expected = [[{one["label"]: one["score"] for one in of_text}[name] for name in LABELS] for of_text in answers]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_classifier_without_examples_learns_from_a_served_one(shared_server, make_tiny_config, tokenizer):
    untrained = pipeline("docsplit-knn", model=BertModel(make_tiny_config()), tokenizer=tokenizer, device="cpu")
    texts = [make_text(number, sentences=3) for number in range(320, 400)]
    untrained.add_labels({name: f"A text about {name}." for name in LABELS})
    untrained.add_documents(texts[:60])
    untrained.fit(show_progress=False, teacher=f"{shared_server.address}/v1#subjects", teacher_texts=40)
    saved = untrained.datastore.fitted
    assert len(saved.settings["teacher"]["documents"]) == 40
    np.testing.assert_allclose(saved.arrays["teacher.answers"].sum(1), 1, atol=1e-6)
    assert untrained(texts[60])[0]["label"] in LABELS
