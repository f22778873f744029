"""JSON from outside that is nested too deeply is refused in a sentence, wherever it is read."""

import pytest

from docsplit_hf import load_labeled_examples
from docsplit_hf.apps.cli.fit_arguments import read_hierarchy
from docsplit_hf.encoding.checkpoints.sentence_transformers_files import load_projection
from docsplit_hf.reading.labels import separate_labels

DEEP = "[" * 100_000
DEEP_ROW = f'{{"text": {DEEP}'
ROW = '{"text": "The river rose.", "label": "river"}'


@pytest.mark.parametrize("content", [DEEP, f"[{ROW}, {DEEP}", DEEP_ROW, f"{ROW}\n{DEEP_ROW}", f"{ROW}\n{DEEP}"])
@pytest.mark.parametrize("name", ["train.jsonl", "train.json"])
def test_a_file_of_rows(tmp_path, content, name):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name}.*(not JSON|cannot be used)"):
        load_labeled_examples(str(tmp_path / name))


def test_a_hierarchy(tmp_path):
    (tmp_path / "tree.json").write_text(DEEP)
    with pytest.raises(ValueError, match="tree.json is no JSON"):
        read_hierarchy(str(tmp_path / "tree.json"))


def test_a_checkpoint(tmp_path):
    (tmp_path / "modules.json").write_text(DEEP)
    with pytest.raises(ValueError, match="modules.json .* is not JSON"):
        load_projection(str(tmp_path))


@pytest.mark.parametrize("deep", ["[" * 100_000 + "]" * 100_000, "[" * 50 + "'a'" + "]" * 50, "[" * 300 + "]" * 300])
def test_a_label_that_looks_like_a_list(deep):
    assert isinstance(separate_labels(deep, ";"), list)
