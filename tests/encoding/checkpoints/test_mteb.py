"""mteb reads a checkpoint through sentence-transformers."""

import pytest
from datasets import Dataset, DatasetDict

from docsplit_hf import AutoModelForDocSplit
from docsplit_hf.encoding.checkpoints.sentence_transformers_files import save_sentence_transformers_files

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mteb"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mteb"),
]


@pytest.fixture(scope="module")
def tasks(texts):
    mteb = pytest.importorskip("mteb", reason="pip install -e '.[mteb]'")
    from mteb.abstasks.classification import AbsTaskClassification
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    class TinyClassification(AbsTaskClassification):
        metadata = TaskMetadata(
            name="TinyClassification",
            type="Classification",
            description="Which of two subjects a text is about.",
            dataset={"path": "tiny", "revision": "1"},
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="accuracy",
        )
        n_experiments = 2
        samples_per_label = 4

        def load_data(self, **kwargs):
            subjects = ["river garden "] * 12 + ["engine orchestra "] * 12
            rows = {"text": [text * (3 + i % 12) for i, text in enumerate(subjects)], "label": [0] * 12 + [1] * 12}
            self.dataset = DatasetDict(train=Dataset.from_dict(rows), test=Dataset.from_dict(rows))
            self.data_loaded = True

    class TinySTS(AbsTaskSTS):
        metadata = TinyClassification.metadata.model_copy(
            update={"name": "TinySTS", "type": "STS", "main_score": "cosine_spearman"}
        )
        min_score = 0
        max_score = 2

        def load_data(self, **kwargs):
            rows = {"sentence1": texts[:3], "sentence2": [texts[0], texts[1][:9], texts[0]], "score": [2.0, 1.0, 0.0]}
            self.dataset = DatasetDict(test=Dataset.from_dict(rows))
            self.data_loaded = True

    assert mteb
    return [TinyClassification(), TinySTS()]


@pytest.mark.slow
def test_mteb_evaluates_a_checkpoint(tasks, tiny_checkpoint, tokenizer, tmp_path):
    import mteb
    from sentence_transformers import SentenceTransformer

    model = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint), pooling="mean")
    model.config.docsplit["max_length"] = 64
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    save_sentence_transformers_files(tmp_path, model.config)
    results = mteb.evaluate(
        SentenceTransformer(str(tmp_path), device="cpu"), tasks, cache=None, show_progress_bar=False
    )
    scores = {result.task_name: result.get_score() for result in results.task_results}
    assert scores["TinyClassification"] == 1.0 and -1 <= scores["TinySTS"] <= 1
