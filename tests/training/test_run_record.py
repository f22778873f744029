import json

import pytest
from datasets import Dataset, IterableDataset
from peft import LoraConfig, get_peft_model

from docsplit_hf.training.arguments import ShareableTrainingArguments
from docsplit_hf.training.run_record import check_same_run, describe_run, differences

ROWS = {"text": [f"text {i}" for i in range(200)], "label": [i % 3 for i in range(200)]}


@pytest.fixture
def describe(tiny_model):
    def describe(rows=None, model=None, columns=("text", "label"), **arguments):
        args = ShareableTrainingArguments("output", use_cpu=True, **arguments)
        dataset = rows if rows is not None else Dataset.from_dict(ROWS)
        return describe_run(args, model or tiny_model, dataset, list(columns))

    return describe


def test_the_same_rows_are_the_same_however_they_are_stored(describe):
    table = Dataset.from_dict(ROWS)
    reordered = table.select(range(199, -1, -1)).select(range(199, -1, -1))
    for same in (reordered, table.with_format("numpy"), table.add_column("other", [0] * 200)):
        assert describe(same) == describe(table)


@pytest.mark.parametrize("change", [
    lambda table: table.select(range(199)),
    lambda table: table.shuffle(seed=0),
    lambda table: table.map(lambda row: {"label": 0}),
    lambda table: table.map(lambda row: {"text": row["text"].upper()}),
])  # fmt: skip
def test_other_rows_are_told(describe, change):
    table = Dataset.from_dict(ROWS)
    assert any("training_rows" in found for found in differences(describe(table), describe(change(table))))


def test_a_stream_is_told_by_what_is_said_of_it(describe):
    def stream():
        raise AssertionError("a stream is not read before training")

    wikipedia, news = (describe(IterableDataset.from_generator(stream), data_description=d) for d in ("wiki", "news"))
    assert differences(wikipedia, news) == ["training_stream: 'wiki', now 'news'"]
    assert not differences(wikipedia, describe(IterableDataset.from_generator(stream), data_description="wiki"))


def test_another_adapter_is_told(describe, tiny_checkpoint):
    from docsplit_hf import AutoModelForDocSplit

    def adapted(rank):
        model = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint))
        return describe(model=get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear")))

    assert adapted(4)["started_from"] == "tiny" and differences(adapted(4), adapted(4)) == []
    assert "adapters.default.r: 4, now 8" in differences(adapted(4), adapted(8))


@pytest.mark.parametrize("name, before, now, said", [
    ("logging_steps", 10, 20, False), ("save_steps", 10, 20, False), ("report_to", [], ["tensorboard"], False),
    ("dataloader_num_workers", 0, 4, False), ("bf16", False, True, False), ("packing", "auto", "off", False),
    ("forward_chunk_size", None, 8, False), ("output_dir", "a", "b", False), ("use_cpu", True, False, False),
    ("seed", 1, 2, True), ("objective", "info_nce", "mlm", True), ("learning_rate", 1e-4, 2e-4, True),
    ("max_length", 64, 128, True), ("views", "docsplit", "simcse", True), ("triplet_margin", 0.1, 1.0, True),
    ("per_device_train_batch_size", 8, 16, True), ("gradient_accumulation_steps", 1, 2, True),
    ("processes", 1, 2, True), ("num_train_epochs", 1.0, 3.0, True), ("temperature", 0.05, 0.1, True),
])  # fmt: skip
def test_what_may_change_when_a_run_goes_on(name, before, now, said):
    assert bool(differences({name: before, "max_steps": -1}, {name: now, "max_steps": -1})) == said


def test_a_checkpoint_without_a_record_is_resumed_with_a_warning(tmp_path, caplog):
    check_same_run(tmp_path, {"seed": 1})
    assert "does not say what data it was trained on" in caplog.text
    (tmp_path / "training_args.json").write_text(json.dumps({"seed": 2}))  # what it does say is compared
    with pytest.raises(ValueError, match="belongs to another run: seed: 2, now 1. Give what that run was given"):
        check_same_run(tmp_path, {"seed": 1})
