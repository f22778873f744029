"""DeepSpeed's ZeRO-2 in two processes on the CPU, against one process without it."""

import json
import os
import subprocess
import sys

import pytest
import torch
from datasets import load_from_disk
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, DataCollatorForDocSplit
from docsplit_hf.pretraining.objectives import get_arguments_class

INSTALL = "pip install wheel py-cpuinfo, then DS_BUILD_OPS=0 pip install --no-build-isolation deepspeed"
ADAM = {"lr": 1e-3, "eps": 1e-4, "weight_decay": 0.0, "betas": [0.9, 0.999], "torch_adam": True}
ZERO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": ADAM},
}


def train(folder, processes, resume=None):
    """The losses of four steps of eight documents; checkpoints are saved at the second and the last."""
    args = get_arguments_class("info_nce")(
        f"{folder}/run-{processes}",
        per_device_train_batch_size=8 // processes,
        train_sampling_strategy="sequential",
        logging_steps=1,
        save_strategy="steps",
        save_steps=2,
        max_steps=4,
        learning_rate=ADAM["lr"],
        adam_epsilon=ADAM["eps"],
        lr_scheduler_type="constant",
        use_cpu=True,
        disable_tqdm=True,
        deepspeed=ZERO if processes > 1 else None,
    )
    trainer = ContrastiveTrainer(
        AutoModelForDocSplit.from_pretrained(f"{folder}/tiny"),
        args,
        load_from_disk(f"{folder}/documents"),
        data_collator=DataCollatorForDocSplit(AutoTokenizer.from_pretrained(f"{folder}/tiny"), max_length=64),
    )
    trainer.train(resume)
    assert trainer.is_deepspeed_enabled == (processes > 1)
    trainer.save_model()
    return [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]


def launch(folder, *resume):
    """The losses of two processes, and the bytes of the model that they saved."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = os.environ | {"DS_ACCELERATOR": "cpu"}
    subprocess.run([*command, "-m", __spec__.name, folder, *resume], env=environment, check=True)
    losses = [json.loads((folder / f"losses-{process}.json").read_text()) for process in (0, 1)]
    assert losses[0] == losses[1]
    return losses[0], (folder / "run-2" / "model.safetensors").read_bytes()


def test_two_processes_train_as_one_and_resume(make_tiny_config, tokenizer, documents, tmp_path, texts, record):
    deepspeed = pytest.importorskip("deepspeed", reason=f"needs DeepSpeed: {INSTALL}")
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(make_tiny_config()).save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    documents.save_to_disk(tmp_path / "documents")
    one = train(tmp_path, 1)
    two, saved = launch(tmp_path)
    assert two == pytest.approx(one, abs=1e-5) and len(two) == 4 and max(two) - min(two) > 1e-3
    weights, other = (load_file(tmp_path / name / "model.safetensors") for name in ("run-1", "run-2"))
    assert set(weights) == set(other)
    for name, weight in weights.items():
        torch.testing.assert_close(other[name], weight, atol=1e-4, rtol=1e-4, msg=name)
    models = [SentenceTransformer(str(tmp_path / name), device="cpu") for name in ("run-1", "run-2")]
    embedded = [model.encode(texts[:4]) for model in models]
    assert embedded[0] == pytest.approx(embedded[1], abs=1e-4)
    assert launch(tmp_path, str(tmp_path / "run-2" / "checkpoint-2")) == (two, saved)
    difference = max(abs(a - b) for a, b in zip(one, two, strict=True))
    record(
        "deepspeed, ZeRO-2",
        deepspeed=deepspeed.__version__,
        torch=torch.__version__,
        losses_differ_by=difference,
        resumed_equal=True,
    )


if __name__ == "__main__":
    losses = train(sys.argv[1], 2, *sys.argv[2:])
    with open(f"{sys.argv[1]}/losses-{os.environ['RANK']}.json", "w") as file:
        json.dump(losses, file)
