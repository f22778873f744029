import numpy as np

from docsplit_hf.neighbors.audit.outliers import outliers


def test_they_lie_below_the_first_quartile_by_more_than_the_quartiles_are_apart():
    closeness = np.array([0.5, 0.6, 0.7, 0.8, 0.55, 0.65, 0.75, 0.44, 0.2, 0.1])
    first, third = np.quantile(closeness, [0.25, 0.75])
    assert 0.2 < first - (third - first) < 0.44
    assert outliers(closeness).tolist() == [9, 8]
    assert outliers(np.full(5, 0.3)).tolist() == []
