import pytest

from docsplit_hf.training.checkpoints import check_output_dir, checkpoint_to_resume, complete_checkpoints


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
    (tmp_path_factory.getbasetemp() / "in use").mkdir()
    (tmp_path_factory.getbasetemp() / "in use" / "file").touch()
    with pytest.raises(ValueError, match="Choose another, or write over it"):  # there is nothing to go on from
        check_output_dir(tmp_path_factory.getbasetemp() / "in use", resume=False, overwrite=False)
    check_output_dir(run, resume=True, overwrite=False)
    check_output_dir(run, resume=False, overwrite=True)
    check_output_dir(tmp_path_factory.mktemp("empty"), resume=False, overwrite=False)
