"""The rows of documents to label."""

import pytest

from docsplit_hf.apps.cli.suggest import row_of

DOCUMENT = {"id": "d3", "file": "a.pdf", "text": "The river.", "text_pair": None, "score": 0.75}


@pytest.mark.parametrize(
    ("answer", "predicted"),
    [
        ({"label": "river"}, "river"),
        ({"label": "river", "labels": ["river", "engine"]}, ["river", "engine"]),  # a text may have several
        ({"label": "river", "labels": []}, []),
    ],
)
def test_a_row_has_the_document_the_answer_and_an_empty_label(answer, predicted):
    assert row_of({**DOCUMENT, **answer}) == {**DOCUMENT, "predicted_label": predicted, "label": None}
