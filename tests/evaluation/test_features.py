import numpy as np
import pytest
from scipy import sparse

from docsplit_hf.experiments.systems.features import check_features


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix])
@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        ([[0.0], [np.nan]], None, "the test features: row 1 holds NaN"),
        (np.ones((0, 2)), None, "the test features: there are none. Is the split empty"),
        ([[1.0], [2.0]], np.array([0]), "the test features: 2 rows, but 1 labels"),
    ],
)
def test_broken_features_are_refused(form, rows, labels, message):
    with pytest.raises(ValueError, match=message):
        check_features(form(rows), "the test features", labels)
