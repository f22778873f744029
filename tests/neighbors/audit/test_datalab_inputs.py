import contextlib
import io

import numpy as np
import pytest
from cleanlab import Datalab

from docsplit_hf.neighbors.audit.datalab_inputs import datalab_inputs

from .stores import WRONG, more_of, spoiled_store


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:cleanlab")  # 2.9 uses what pandas 3.1 deprecates
@pytest.mark.parametrize("several", [False, True])
def test_datalab_takes_them_and_finds_the_same_labels(several):
    store = spoiled_store(several=several)
    if not several:
        more_of(store)  # which has no out-of-fold answer
    data, probabilities, features = datalab_inputs(store.snapshot)
    assert data.column_names == ["id", "text", "label"] and len(data) == len(probabilities) == len(features) == 63
    with contextlib.redirect_stdout(io.StringIO()):
        lab = Datalab(data, label_name="label", task="multilabel" if several else "classification", verbosity=0)
        lab.find_issues(pred_probs=probabilities, features=features)
    issues = lab.get_issues("label")
    assert set(WRONG) <= {data[int(row)]["id"] for row in np.flatnonzero(issues["is_label_issue"])}
    copies = lab.get_issues("near_duplicate")
    assert copies["is_near_duplicate_issue"][0]


def test_a_label_without_examples_any_more_keeps_its_place():
    store = spoiled_store()
    store.remove([row_id for row_id, label in zip(store.ids, store.labels, strict=True) if label == 1])
    data, probabilities, _ = datalab_inputs(store.snapshot)
    assert probabilities.shape == (len(data), 3) and data.features["label"].names[1] == "mineral"
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    with contextlib.redirect_stdout(io.StringIO()):
        Datalab(data, label_name="label", verbosity=0).find_issues(pred_probs=probabilities)
