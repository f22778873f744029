import torch

from docsplit_hf.training.statistics import RunningMeans


def test_means_are_weighted_and_start_anew():
    means = RunningMeans()
    assert means.pop() == {}
    means.add("loss", torch.tensor(6.0), 2)
    means.add("loss", torch.tensor(4.0), torch.tensor(3))
    means.add("nothing", torch.tensor(0.0), 0)
    assert means.pop() == {"loss": 2.0}
    assert means.pop() == {}
