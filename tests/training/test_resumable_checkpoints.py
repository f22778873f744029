import pytest
import torch
from safetensors.torch import save_file

from docsplit_hf.training.resumable_checkpoints import (
    check_output_dir,
    checkpoint_to_resume,
    complete_checkpoints,
    set_checkpoints_aside,
)


@pytest.fixture
def run(tmp_path):
    for step in (5, 10, 100):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if step != 100:  # the last one was cut off
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    return tmp_path


def test_a_cut_off_checkpoint_is_not_resumed_from(run):
    assert [folder.name for folder in complete_checkpoints(run)] == ["checkpoint-5", "checkpoint-10"]
    for choice in (True, "last"):
        assert checkpoint_to_resume(choice, run) == str(run / "checkpoint-10")
    assert checkpoint_to_resume(str(run / "checkpoint-5"), run) == str(run / "checkpoint-5")
    assert checkpoint_to_resume(None, run) is checkpoint_to_resume(False, run) is None


def test_what_is_not_a_checkpoint_says_so(run, tmp_path_factory):
    with pytest.raises(ValueError, match=r"not a complete checkpoint.*it holds .*checkpoint-5.*checkpoint-10"):
        checkpoint_to_resume(str(run), run)
    with pytest.raises(ValueError, match="checkpoint-100 is not a complete checkpoint"):
        checkpoint_to_resume(str(run / "checkpoint-100"), run)
    with pytest.raises(ValueError, match="no complete checkpoint to resume from"):
        checkpoint_to_resume(True, tmp_path_factory.mktemp("empty"))


def test_output_folders_are_not_mixed(run, tmp_path_factory):
    with pytest.raises(ValueError, match="not empty.*--resume_from_checkpoint last.*--overwrite_output_dir"):
        check_output_dir(run, resume=False, overwrite=False)
    check_output_dir(run, resume=True, overwrite=False)
    check_output_dir(run, resume=False, overwrite=True)
    other = tmp_path_factory.mktemp("other")
    check_output_dir(other, resume=False, overwrite=False)
    (other / "file").touch()
    with pytest.raises(ValueError, match="Choose another, or write over it"):  # there is nothing to go on from
        check_output_dir(other, resume=False, overwrite=False)


def test_a_folder_of_another_name_is_no_checkpoint(run):
    for name in ("checkpoint-best", "checkpoint-20-copy", "checkpoint-"):
        (run / name).mkdir()
        (run / name / "trainer_state.json").write_text("{}")
    assert [folder.name for folder in complete_checkpoints(run)] == ["checkpoint-5", "checkpoint-10"]
    assert checkpoint_to_resume("last", run) == str(run / "checkpoint-10")
    aside = set_checkpoints_aside(run)
    assert {folder.name for folder in aside.iterdir()} == {"checkpoint-5", "checkpoint-10", "checkpoint-100"}
    assert complete_checkpoints(run) == []
    assert (run / "checkpoint-best").is_dir() and (run / "checkpoint-20-copy").is_dir()


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.pt", "rng_state_1.pth", "trainer_state.json"])
@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_a_file_that_is_not_whole_is_named_and_the_checkpoint_before(run, file, kept):
    for folder in complete_checkpoints(run):
        save_file({"weight": torch.ones(50)}, folder / "model.safetensors")
        for name in ("optimizer.pt", "rng_state_1.pth"):
            torch.save({"state": torch.ones(50)}, folder / name)
        (folder / "trainer_state.json").write_text('{"global_step": 5}\n')
    assert checkpoint_to_resume("last", run) == str(run / "checkpoint-10")
    broken = run / "checkpoint-10" / file
    broken.write_bytes(broken.read_bytes()[: int(kept * (broken.stat().st_size - 2))])
    for choice in ("last", str(run / "checkpoint-10")):
        message = f"checkpoint-10/{file} is not whole .*checkpoint-5 is whole.*--resume_from_checkpoint .*checkpoint-5"
        with pytest.raises(ValueError, match=message):
            checkpoint_to_resume(choice, run)
    (run / "checkpoint-5" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="There is no whole checkpoint before it"):
        checkpoint_to_resume("last", run)


def test_the_checkpoint_that_a_run_starts_from_is_not_written_over(run):
    with pytest.raises(ValueError, match="would start from .*checkpoint-10 and write over"):
        check_output_dir(run, resume=False, overwrite=True, model=str(run / "checkpoint-10"))
    check_output_dir(run, resume=False, overwrite=True, model="google-bert/bert-base-uncased")
