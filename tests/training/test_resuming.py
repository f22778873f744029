"""Checkpoints to resume from, and descriptions of runs."""

import json

import pytest
from datasets import Dataset, IterableDataset
from peft import LoraConfig, get_peft_model

from docsplit_hf.training.arguments import ShareableTrainingArguments
from docsplit_hf.training.checkpoint_folders import check_output_dir, complete_checkpoints, set_checkpoints_aside
from docsplit_hf.training.resuming import check_same_run, checkpoint_to_resume, describe_run, differences


@pytest.fixture
def run(tmp_path):
    for step in (5, 10, 100):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if step != 100:  # the last one is incomplete
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    return tmp_path


def test_an_incomplete_checkpoint_is_not_resumed(run):
    assert [folder.name for folder in complete_checkpoints(run)] == ["checkpoint-5", "checkpoint-10"]
    for choice in (True, "last"):
        assert checkpoint_to_resume(choice, run) == str(run / "checkpoint-10")
    assert checkpoint_to_resume(str(run / "checkpoint-5"), run) == str(run / "checkpoint-5")
    assert checkpoint_to_resume(None, run) is checkpoint_to_resume(False, run) is None


def test_folders_that_are_not_complete_checkpoints_are_refused(run, tmp_path_factory):
    with pytest.raises(ValueError, match=r"not a complete checkpoint.*it holds .*checkpoint-5.*checkpoint-10"):
        checkpoint_to_resume(str(run), run)
    with pytest.raises(ValueError, match="checkpoint-100 is not a complete checkpoint"):
        checkpoint_to_resume(str(run / "checkpoint-100"), run)
    with pytest.raises(ValueError, match="no complete checkpoint to resume from"):
        checkpoint_to_resume(True, tmp_path_factory.mktemp("empty"))


def test_an_output_folder_of_another_run_is_refused(run, tmp_path_factory):
    with pytest.raises(ValueError, match="not empty.*--resume_from_checkpoint last.*--overwrite_output_dir"):
        check_output_dir(run, resume=False, overwrite=False)
    check_output_dir(run, resume=True, overwrite=False)
    check_output_dir(run, resume=False, overwrite=True)
    other = tmp_path_factory.mktemp("other")
    check_output_dir(other, resume=False, overwrite=False)
    (other / "file").touch()
    with pytest.raises(ValueError, match="Choose another, or write over it"):  # without a checkpoint to resume
        check_output_dir(other, resume=False, overwrite=False)


def test_a_folder_with_another_name_is_not_a_checkpoint(run):
    for name in ("checkpoint-best", "checkpoint-20-copy", "checkpoint-"):
        (run / name).mkdir()
        (run / name / "trainer_state.json").write_text("{}")
    assert [folder.name for folder in complete_checkpoints(run)] == ["checkpoint-5", "checkpoint-10"]
    assert checkpoint_to_resume("last", run) == str(run / "checkpoint-10")
    aside = set_checkpoints_aside(run)
    assert {folder.name for folder in aside.iterdir()} == {"checkpoint-5", "checkpoint-10", "checkpoint-100"}
    assert complete_checkpoints(run) == []
    assert (run / "checkpoint-best").is_dir() and (run / "checkpoint-20-copy").is_dir()


def test_only_checkpoints_of_later_steps_are_set_aside(run):
    assert set_checkpoints_aside(run, after=100) is None
    aside = set_checkpoints_aside(run, after=5)
    assert {folder.name for folder in aside.iterdir()} == {"checkpoint-10", "checkpoint-100"}
    assert [folder.name for folder in complete_checkpoints(run)] == ["checkpoint-5"]


def test_the_checkpoint_that_a_run_starts_from_is_not_overwritten(run):
    with pytest.raises(ValueError, match="would start from .*checkpoint-10 and write over"):
        check_output_dir(run, resume=False, overwrite=True, model=str(run / "checkpoint-10"))
    check_output_dir(run, resume=False, overwrite=True, model="google-bert/bert-base-uncased")


ROWS = {"text": [f"text {i}" for i in range(200)], "label": [i % 3 for i in range(200)]}


@pytest.fixture
def describe(tiny_model):
    def describe(rows=None, model=None, columns=("text", "label"), **arguments):
        args = ShareableTrainingArguments("output", use_cpu=True, **arguments)
        dataset = rows if rows is not None else Dataset.from_dict(ROWS)
        return describe_run(args, model or tiny_model, dataset, list(columns))

    return describe


def test_equal_rows_have_equal_descriptions_in_any_storage(describe):
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
def test_other_rows_are_a_difference(describe, change):
    table = Dataset.from_dict(ROWS)
    assert any("training_rows" in found for found in differences(describe(table), describe(change(table))))


def test_streams_are_compared_by_their_descriptions(describe):
    def stream():
        raise AssertionError("a stream is not read before training")

    wikipedia = describe(IterableDataset.from_generator(stream), data_description="wiki")
    news = describe(IterableDataset.from_generator(stream), data_description="news")
    assert differences(wikipedia, news) == ["training_stream: 'wiki', now 'news'"]
    assert not differences(wikipedia, describe(IterableDataset.from_generator(stream), data_description="wiki"))


def test_the_workers_of_a_stream_may_not_change():
    stream = {"training_rows": None, "dataloader_num_workers": 8}
    assert differences(stream, {**stream, "dataloader_num_workers": 4}) == ["dataloader_num_workers: 8, now 4"]
    assert not differences({**stream, "training_rows": 9}, {"training_rows": 9, "dataloader_num_workers": 4})


def test_another_adapter_is_a_difference(describe, tiny_checkpoint):
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
def test_options_that_may_change_when_a_run_is_resumed(name, before, now, said):
    assert bool(differences({name: before, "max_steps": -1}, {name: now, "max_steps": -1})) == said


def test_a_checkpoint_without_a_record_is_resumed_with_a_warning(tmp_path, caplog):
    check_same_run(tmp_path, {"seed": 1})
    assert "has no record of its training data" in caplog.text
    (tmp_path / "training_args.json").write_text(json.dumps({"seed": 2}))  # an incomplete record is compared too
    with pytest.raises(ValueError, match="belongs to another run: seed: 2, now 1. Use the arguments of that run"):
        check_same_run(tmp_path, {"seed": 1})
