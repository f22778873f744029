import pytest

from docsplit_hf.models.checkpoints.lock import locked


@pytest.mark.parametrize("name", ["folder", "file"])
def test_one_at_a_time(name, tmp_path):
    pytest.importorskip("fcntl", reason="Windows has none")
    (tmp_path / "folder").mkdir()
    with locked(tmp_path / name) as is_locked:
        assert is_locked
        with pytest.raises(BlockingIOError), locked(tmp_path / name, wait=False):
            pass
    with locked(tmp_path / name, wait=False) as is_locked:
        assert is_locked
