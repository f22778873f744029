"""Defaults of the data loader's workers."""

import json

import pytest
from transformers import HfArgumentParser

from docsplit_hf.training import arguments
from docsplit_hf.training.arguments import ShareableTrainingArguments, default_workers

LINUX = ["fork", "spawn", "forkserver"]
NAMES = ("dataloader_num_workers", "dataloader_persistent_workers", "dataloader_prefetch_factor")


@pytest.fixture
def on_cuda(monkeypatch):
    """Arguments take this machine for one with CUDA and 12 cores; what is computed is still computed on the CPU."""
    monkeypatch.setattr(arguments, "training_device_type", lambda use_cpu: "cpu" if use_cpu else "cuda")
    monkeypatch.setattr(arguments, "core_count", lambda: 12)


@pytest.fixture
def make(tmp_path):
    def make(**options):
        return ShareableTrainingArguments(str(tmp_path), **options)

    return make


def settings(args):
    return tuple(getattr(args, name) for name in NAMES)


@pytest.mark.parametrize("device_type, cores, local_processes, start_methods, workers", [
    ("cuda", 16, 1, LINUX, 8), ("cuda", 64, 1, LINUX, 8), ("cuda", 12, 1, LINUX, 6), ("cuda", 2, 1, LINUX, 1),
    ("cuda", 1, 1, LINUX, 0), ("cuda", 64, 8, LINUX, 4), ("cuda", 4, 4, LINUX, 0), ("cuda", 16, 1, ["spawn"], 0),
    ("cpu", 16, 1, LINUX, 0), ("mps", 16, 1, LINUX, 0),
])  # fmt: skip
def test_workers_by_default_take_half_of_the_cores_on_cuda(device_type, cores, local_processes, start_methods, workers):
    assert default_workers(device_type, cores, local_processes, start_methods) == workers


def test_on_a_cpu_there_are_no_workers_by_default(make, on_cuda):
    args = make(use_cpu=True)
    assert settings(args) == (0, False, None) and args.dataloader_multiprocessing_context is None
    assert settings(make(use_cpu=True, dataloader_num_workers=2)) == (2, False, 4)


def test_on_cuda_workers_make_batches_in_advance(make, on_cuda):
    args = make()
    assert settings(args) == (6, False, 4) and args.dataloader_multiprocessing_context == "fork"
    assert settings(make(per_device_train_batch_size=1024)) == (6, False, 2)
    assert settings(make(per_device_train_batch_size=2**15)) == (6, False, 1)
    assert json.loads(args.to_json_string())["dataloader_num_workers"] == 6


def test_processes_share_the_cores_of_their_machine(make, on_cuda, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    args = ShareableTrainingArguments.__new__(ShareableTrainingArguments)  # without connecting to other processes
    for name, value in {"use_cpu": False, "per_device_train_batch_size": 8, "dataloader_prefetch_factor": None}.items():
        setattr(args, name, value)
    args.dataloader_num_workers = args.dataloader_multiprocessing_context = None
    args._set_workers()
    assert args.dataloader_num_workers == 2


def test_given_settings_are_kept(make, on_cuda):
    none = make(dataloader_num_workers=0)
    assert settings(none) == (0, False, None) and none.dataloader_multiprocessing_context is None
    given = make(dataloader_num_workers=3, dataloader_persistent_workers=False, dataloader_prefetch_factor=9)
    assert settings(given) == (3, False, 9)


def test_options_of_the_command_line_set_them(on_cuda, tmp_path):
    def parse(*options):
        parser = HfArgumentParser(ShareableTrainingArguments)
        return parser.parse_args_into_dataclasses(["--output_dir", str(tmp_path), *options])[0]

    assert settings(parse()) == (6, False, 4)
    assert settings(parse("--dataloader_num_workers", "0")) == (0, False, None)
    assert settings(parse("--use_cpu", "--dataloader_num_workers=2", "--dataloader_persistent_workers")) == (
        2,
        True,
        4,
    )
