"""FSDP and means over processes, in one process."""

from types import SimpleNamespace

import pytest
import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from docsplit_hf.training.arguments import ShareableTrainingArguments, check_processes
from docsplit_hf.training.distributed import RunningMeans, in_fsdp_units


def test_fsdp_does_not_cast_outputs_and_refuses_sharded_checkpoints(tiny_model):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.bfloat16)

    def wrapped_by(version):
        plugin = SimpleNamespace(
            fsdp_version=version,
            mixed_precision_policy=policy,
            state_dict_type="FULL_STATE_DICT",
            transformer_cls_names_to_wrap=None,
        )
        with in_fsdp_units(tiny_model, plugin):
            pass
        return plugin

    assert wrapped_by(1).mixed_precision_policy is policy
    second = wrapped_by(2)
    changed = second.mixed_precision_policy
    assert (changed.param_dtype, changed.output_dtype) == (torch.bfloat16, None)
    assert second.transformer_cls_names_to_wrap == ["BertLayer"] and tiny_model.get_input_embeddings() is not None
    with pytest.raises(ValueError, match="With SHARDED_STATE_DICT no model is saved"):
        with in_fsdp_units(tiny_model, SimpleNamespace(state_dict_type="SHARDED_STATE_DICT")):
            pass


def test_fsdp_on_a_cpu_is_ignored_with_a_warning(tmp_path, monkeypatch, caplog):
    args = ShareableTrainingArguments(str(tmp_path), use_cpu=True)
    check_processes(args)
    assert not caplog.text
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")  # set by accelerate launch, and not part of the arguments
    check_processes(args)
    assert "FSDP is ignored" in caplog.text


def test_means_are_weighted_and_reset():
    means = RunningMeans()
    assert means.pop() == {}
    means.add("loss", torch.tensor(6.0), 2)
    means.add("loss", torch.tensor(4.0), torch.tensor(3))
    means.add("nothing", torch.tensor(0.0), 0)
    assert means.pop() == {"loss": 2.0}
    assert means.pop() == {}
