import numpy as np

from docsplit_hf.neighbors.audit.outliers import outliers


def test_they_lie_below_the_fence_of_tukey():
    closeness = np.array([0.5, 0.6, 0.7, 0.8, 0.55, 0.65, 0.75, 0.44, 0.02, 0.01, 0.6, 0.62, 0.58, 0.22])
    first, third = np.quantile(closeness, [0.25, 0.75])
    assert 0.02 < first - 1.5 * (third - first) < 0.22 < first - (third - first)
    assert outliers(closeness).tolist() == [9, 8]
    assert outliers(np.full(5, 0.3)).tolist() == []
