from dataclasses import replace

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.classifier.fit_datastore import fit_datastore
from docsplit_hf.fitting.ensemble.lacking_labels import ENOUGH_EXAMPLES, LEAST_DOCUMENTS
from docsplit_hf.fitting.ensemble.report import FitReport
from docsplit_hf.fitting.experts.registry import EXPERTS

from .stores import NAMES, make_keys, make_texts, score

EXPERT_NAMES = [name for name in EXPERTS if name != "label_names"]


def store_of(examples, documents):
    """As many examples of fruit and mineral, and documents of fruit (0) and mineral (1)."""
    labels = np.arange(examples) % 2
    store = KNNDatastore(make_keys(labels, 1), labels, NAMES[:2], make_texts(labels, 1))
    store.add_documents(make_keys(documents, 2), make_texts(documents, 5))
    return store


def test_documents_that_lack_a_label_are_left_out_and_the_log_says_so(untrained, caplog):
    store = store_of(6, [0] * 195 + [1] * 5)
    report = fit_datastore(untrained.embedder, store, experts=EXPERT_NAMES)
    assert (report.documents, report.left_out, report.lacking) == (0, 200, {"mineral": 0.025})
    sentence = "200 documents were left out: by the examples alone they have only 2% 'mineral'"
    assert sentence in str(report) and sentence in caplog.text and "Add documents of the kind" in caplog.text
    assert FitReport.of(store.fitted.settings) == report
    examples = KNNDatastore.from_snapshot(replace(store.snapshot, documents=None, fitted=None))
    assert not fit_datastore(untrained.embedder, examples, experts=EXPERT_NAMES).lacking
    np.testing.assert_array_equal(score(store).probabilities, score(examples).probabilities)


@pytest.mark.parametrize(
    ("examples", "documents"),
    [(6, [0, 1] * 50), (6, [0] * (LEAST_DOCUMENTS - 1)), (ENOUGH_EXAMPLES, [0] * 100), (2, [0] * 195 + [1] * 5)],
)
def test_documents_stay_if_they_have_each_label_or_are_few_or_examples_judge_or_none_can(
    untrained, examples, documents
):
    store = store_of(examples, documents)
    report = fit_datastore(untrained.embedder, store, experts=EXPERT_NAMES)
    assert (report.documents, report.lacking) == (len(documents), {})
