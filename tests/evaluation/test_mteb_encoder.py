"""mteb's tasks on a checkpoint."""

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from docsplit_hf.evaluation.mteb_encoder import MTEBEncoder

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


def test_mteb_evaluates_a_checkpoint(tasks, tiny_checkpoint):
    import mteb
    from mteb.models import EncoderProtocol

    model = MTEBEncoder(f"{tiny_checkpoint}#pooling=mean")
    assert isinstance(model, EncoderProtocol)
    results = mteb.evaluate(model, tasks, cache=None, show_progress_bar=False)
    assert results.model_name == "local/tiny" and results.model_revision == model.encoder.fingerprint[:16]
    scores = {result.task_name: result.get_score() for result in results.task_results}
    assert scores["TinyClassification"] == 1.0 and -1 <= scores["TinySTS"] <= 1
    meta = model.mteb_model_meta
    assert (meta.embed_dim, meta.max_tokens, meta.use_instructions) == (32, 64, False)


def test_similarities_are_cosines(tiny_checkpoint, texts):
    pytest.importorskip("mteb", reason="pip install -e '.[mteb]'")
    model = MTEBEncoder(str(tiny_checkpoint), name="me/tiny")
    a = model.encode([{"text": texts[:2]}, {"text": texts[2:3]}], show_progress_bar=False)
    b = np.eye(3, 32)
    assert a == pytest.approx(model.encoder.encode(texts[:3], show_progress=False), abs=1e-6)
    assert model.similarity(a, b).numpy() == pytest.approx(a @ b.T, abs=1e-5)
    assert model.similarity_pairwise(a, b).numpy() == pytest.approx((a * b).sum(1), abs=1e-5)
    with pytest.raises(ValueError, match="mteb gives image, and this model reads text"):
        model.encode([{"image": []}])


def test_long_texts_can_be_read_whole(tiny_checkpoint, texts):
    pytest.importorskip("mteb", reason="pip install -e '.[mteb]'")
    long = [" ".join(texts)]
    model = MTEBEncoder(str(tiny_checkpoint), long_documents="average")
    first = MTEBEncoder(str(tiny_checkpoint))
    whole = first.encoder.encode(long, long_documents="average", show_progress=False)
    assert model.encode([{"text": long}], show_progress_bar=False) == pytest.approx(whole, abs=1e-6)
    meta = model.mteb_model_meta
    assert (meta.embed_dim, meta.max_tokens) == (32, 64) and meta.revision != first.mteb_model_meta.revision
