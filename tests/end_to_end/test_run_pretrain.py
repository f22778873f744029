"""``docsplit pretrain`` as users run it, and the files that it saves."""

import json
import shutil

import numpy as np
import pytest
import torch
from accelerate.commands import launch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT, DEFAULT_RECIPE

from .conftest import ROOT
from .forked import run_two_processes

FRESH_PYTHON = """
import json, pathlib, runpy, sys
import numpy, torch
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "docsplit_hf":
            raise ImportError("docsplit_hf is blocked")
blocked = Blocked()
sys.meta_path.insert(0, blocked)
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForMaskedLM
folder, texts = sys.argv[1], json.loads(sys.argv[2])
report = {}
for auto_class in (AutoModel, AutoModelForMaskedLM):
    _, info = auto_class.from_pretrained(folder, output_loading_info=True)
    report[auto_class.__name__] = {key: sorted(info[key]) for key in ("missing_keys", "unexpected_keys")}
numpy.save(sys.argv[3], SentenceTransformer(folder).encode(texts))
try:
    import docsplit_hf
except ImportError:
    report["blocked"] = True
print("\\nFOUND" + json.dumps(report))
sys.meta_path.remove(blocked)
sys.argv = sys.argv[4:]
sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_the_last_screen_and_the_files(pretrained):
    folder, printed = pretrained
    assert "Given one half of one of 4 held-out documents" in printed and "recall@1   before" in printed
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if "checkpoint-" not in str(path)}
    assert {
        "README.md", "config.json", "model.safetensors", "tokenizer.json", "modules.json", "1_Pooling/config.json",
        "sentence_bert_config.json", "training_args.json",
    } <= files  # fmt: skip
    assert not [file for file in files if file.endswith((".bin", ".pkl", ".pt", ".pth"))]
    assert [file for file in files if "tfevents" in file], "--report_to tensorboard"
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]
    assert config["docsplit"] == {"pooling": "mean", "max_length": 64} and "auto_map" not in config


def test_the_model_card_is_made_from_the_run(pretrained):
    card = (pretrained[0] / "README.md").read_text()
    for fact in (
        "| Data | documents.jsonl |", "| Training documents | 44 |",
        "| Optimizer steps | 6 |", "| Views | docsplit |", "| Maximum length | 64 tokens |",
        "| Objective | info_nce, temperature 0.05, similarity cosine, mlm_weight 0.1,", "| recall@1 |",
        "step 0", "DocumentEncoder.from_pretrained", "SentenceTransformer(", "AutoModel.from_pretrained",
    ):  # fmt: skip
        assert fact in card, fact
    assert card.startswith("---\nlibrary_name: sentence-transformers")


def test_in_a_fresh_python_the_checkpoint_loads_without_docsplit_hf_and_the_run_gives_the_same(
    pretrain, pretrained, texts, run_python, tmp_path
):
    """One fresh Python for both checks: it has another hash seed than forked scripts, and takes seconds to start."""
    folder = pretrained[0]
    few = [*texts[:5], " ".join(texts[:4]), ""]
    given = "-c", FRESH_PYTHON, folder, json.dumps(few), tmp_path / "embeddings.npy"
    again, printed = pretrain("fresh", run=lambda *command: run_python(*given, *command))
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    report = json.loads(printed.partition("\nFOUND")[2].splitlines()[0])
    assert report["blocked"]
    assert report["AutoModelForMaskedLM"] == {"missing_keys": [], "unexpected_keys": []}
    # AutoModel has no masked-LM head and, for BERT, a pooler that no masked-LM checkpoint holds: the report of a stock
    # BertForMaskedLM checkpoint, and nothing of the encoder in it.
    AutoModelForMaskedLM.from_pretrained(folder).save_pretrained(tmp_path / "stock")
    _, stock = AutoModel.from_pretrained(tmp_path / "stock", output_loading_info=True)
    assert report["AutoModel"] == {key: sorted(stock[key]) for key in ("missing_keys", "unexpected_keys")}
    assert all(key.startswith("pooler.") for key in report["AutoModel"]["missing_keys"])
    assert all(key.startswith("cls.") for key in report["AutoModel"]["unexpected_keys"])
    ours = DocumentEncoder.from_pretrained(str(folder)).encode(few, show_progress=False)
    assert np.load(tmp_path / "embeddings.npy") == pytest.approx(ours, abs=1e-5)


SHOW_ENVIRONMENT = """
import json, os, pathlib, sys
pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(json.dumps(dict(os.environ)))
"""


def test_two_processes_under_accelerate(pretrain, run_script, tmp_path):
    """accelerate starts two processes of a small script; two forked ones train with the environment that it gave."""
    configuration = ROOT / "examples" / "accelerate_configs" / "cpu_2_processes.yaml"
    (tmp_path / "script.py").write_text(SHOW_ENVIRONMENT)
    # Port 0: accelerate takes a free one, so that two runs of the tests on one machine do not collide.
    options = (f"--config_file={configuration}", "--main_process_port=0")
    run_script(launch.__file__, *options, tmp_path / "script.py", tmp_path)
    first, second = (json.loads((tmp_path / rank).read_text()) for rank in "01")
    assert first["WORLD_SIZE"] == second["WORLD_SIZE"] == "2" and second["LOCAL_RANK"] == "1"
    told = {name: value for name, value in first.items() if name.startswith("ACCELERATE_")}
    assert told["ACCELERATE_MIXED_PRECISION"] == "no" and told.items() <= second.items()

    folder, printed = pretrain("two", run=run_two_processes, log=tmp_path / "log", **told)
    assert printed.count("Given one half of one of 4") == 1
    state = json.loads((folder / "checkpoint-6" / "trainer_state.json").read_text())
    assert [logs["negatives"] for logs in state["log_history"] if "negatives" in logs] == [7, 7, 7]
    assert "4 documents x 2 processes" in (folder / "README.md").read_text()


def test_lora_trains_resumes_saves_an_adapter_and_merges(pretrain, texts):
    from peft import PeftModel

    options = ("--use_peft", "--lora_r=4", "--learning_rate=1e-2")
    folder, _ = pretrain("lora", *options)
    shutil.rmtree(folder / "checkpoint-6")
    folder, _ = pretrain("lora", *options, "--merge_peft", "--resume_from_checkpoint=last")
    assert (folder / "adapter_model.safetensors").exists() and not (folder / "model.safetensors").exists()
    assert "PeftModel.from_pretrained" in (folder / "README.md").read_text()
    base = AutoModelForMaskedLM.from_pretrained(folder.parent / "tiny")
    adapted = PeftModel.from_pretrained(base, folder)
    with torch.no_grad():
        assert any(weight.abs().max() > 0 for name, weight in adapted.named_parameters() if "lora_B" in name)
    embeddings = DocumentEncoder.from_pretrained(str(folder)).encode(texts[:4], show_progress=False)
    merged = DocumentEncoder.from_pretrained(str(folder / "merged"))
    assert merged.encode(texts[:4], show_progress=False) == pytest.approx(embeddings, abs=1e-5)
    start = DocumentEncoder.from_pretrained(str(folder.parent / "tiny")).encode(texts[:4], show_progress=False)
    assert abs(start - embeddings).max() > 1e-3
    _, info = AutoModelForMaskedLM.from_pretrained(folder / "merged", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_a_given_dropout_without_evaluation_and_checkpoints(pretrain):
    folder, printed = pretrain(
        "dropout", "--mlm_weight=0", '--config_overrides={"hidden_dropout_prob": 0.1}',
        "--test_size=0", "--save_strategy=no", "--max_steps=2",
    )  # fmt: skip
    assert json.loads((folder / "config.json").read_text())["hidden_dropout_prob"] == 0.1
    assert not list(folder.glob("checkpoint-*")) and "recall" not in printed and "left to learn" not in printed


def quick(workshop, folder, *options):
    """Two steps on the workshop's documents."""
    return [
        ROOT / "examples" / "run_pretrain.py", f"--dataset_name={workshop / 'documents.jsonl'}",
        f"--output_dir={folder}", "--test_size=8", "--num_proc=1", "--max_steps=2", "--save_steps=2",
        "--per_device_train_batch_size=4", "--use_cpu", *options,
    ]  # fmt: skip


def test_the_default_model_is_the_checkpoint_that_ships(run_script, workshop, tmp_path, texts):
    printed = run_script(*quick(workshop, tmp_path / "run"))
    assert "Given one half of one of 4 held-out documents" in printed
    card = (tmp_path / "run" / "README.md").read_text()
    assert f"| Starting point | {DEFAULT_CHECKPOINT} |" in card and f"base_model: {DEFAULT_CHECKPOINT}" in card
    assert f"| Maximum length | {DEFAULT_RECIPE['max_length']} tokens |" in card
    assert f"| Learning rate | {DEFAULT_RECIPE['learning_rate']:g} " in card
    saved = load_file(tmp_path / "run" / "model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {torch.float32}
    ours, shipped = (DocumentEncoder.from_pretrained(name) for name in (str(tmp_path / "run"), None))
    assert (ours.pooling, ours.dimension) == (shipped.pooling, shipped.dimension)
    cosines = [(e.encode(texts[:4], show_progress=False)) for e in (ours, shipped)]
    assert 0.9 < (cosines[0] * cosines[1]).sum(1).min() < 1 - 1e-6  # trained a little


def test_from_scratch_starts_from_random_weights(run_script, workshop, tmp_path):
    shape = ("--vocab_size=300", "--hidden_size=64", "--num_hidden_layers=1")
    run_script(*quick(workshop, tmp_path / "run", "--from_scratch", *shape))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["hidden_size"], config["num_hidden_layers"]) == (64, 1) and config["vocab_size"] <= 300
    assert "| Starting point | random weights (bert) |" in (tmp_path / "run" / "README.md").read_text()
