from types import SimpleNamespace

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from docsplit_hf.training.distributed import RunningMeans, keep_outputs_in_float32


def test_fsdp_computes_in_half_precision_and_gives_float32():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.bfloat16)
    plugins = [SimpleNamespace(fsdp_version=version, mixed_precision_policy=policy) for version in (1, 2)]
    for plugin in plugins:
        keep_outputs_in_float32(plugin)
    assert plugins[0].mixed_precision_policy is policy
    changed = plugins[1].mixed_precision_policy
    assert (changed.param_dtype, changed.output_dtype) == (torch.bfloat16, torch.float32)


def test_means_are_weighted_and_start_anew():
    means = RunningMeans()
    assert means.pop() == {}
    means.add("loss", torch.tensor(6.0), 2)
    means.add("loss", torch.tensor(4.0), torch.tensor(3))
    means.add("nothing", torch.tensor(0.0), 0)
    assert means.pop() == {"loss": 2.0}
    assert means.pop() == {}
