import re

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModel, BertConfig, pipeline
from transformers.pipelines.pt_utils import KeyDataset

import docsplit_hf
from docsplit_hf import KNNClassifierConfig, KNNClassifierPipeline, KNNDatastore
from docsplit_hf.classifier.answering import INSTEAD_OF_MILVUS, REMOVED
from docsplit_hf.encoding.portable.run_encoder import is_packed

NAMES = ["river", "engine"]


@pytest.fixture
def stock(classifier, tokenizer):
    return pipeline(
        "text-classification",
        model=classifier,
        tokenizer=tokenizer,
        device="cpu",
        truncation=True,  # by default in ours
        max_length=64,
    )


def as_pairs(texts):
    return [{"text": text, "text_pair": text[:20]} for text in texts]


FORMS = {
    "one text": lambda texts: texts[0],
    "one pair": lambda texts: as_pairs(texts)[0],
    "a list": lambda texts: list(texts[:9]),
    "a list of one": lambda texts: [texts[0]],
    "a list of pairs": lambda texts: as_pairs(texts[:9]),
    "a generator": lambda texts: (text for text in texts[:9]),
    "a column of a data set": lambda texts: KeyDataset(Dataset.from_dict({"text": texts[:9]}), "text"),
}


def test_packing_gives_the_same_answers(classifier, tokenizer, examples, texts):
    answers = {}
    for packing in ("auto", "off"):
        datastore = KNNDatastore.build(classifier, tokenizer, examples, packing=packing, show_progress=False)
        pipe = KNNClassifierPipeline(classifier, tokenizer, datastore, device="cpu")
        pipe.embedder.use_precision(None, packing=packing)
        assert is_packed(classifier.encoder) == (packing == "auto")
        answers[packing] = [answer["score"] for answer in pipe(texts)]
    assert answers["auto"] == pytest.approx(answers["off"], abs=1e-5)
    coarse = [answer["score"] for answer in pipe(texts, bf16=True)]
    assert 0 < np.abs(np.subtract(coarse, answers["off"])).mean() < 0.02


@pytest.mark.parametrize("name, advice", REMOVED.items())
def test_removed_options_teach_what_to_write_instead(name, advice, pipe, classifier, tokenizer):
    told = re.escape(f"no argument {name!r} any more: {advice}")
    with pytest.raises(TypeError, match=told):
        pipe("a river", **{name: 1})
    with pytest.raises(TypeError, match=told):
        KNNClassifierPipeline(classifier, tokenizer, pipe.datastore, device="cpu", **{name: 1})


@pytest.mark.parametrize("address", ["milvus://localhost:19530/contracts", "http://localhost:19530"])
def test_an_address_of_a_store_teaches_what_to_write_instead(address, classifier, tokenizer):
    told = re.escape(f"datastore={address!r} is no folder: {INSTEAD_OF_MILVUS}")
    with pytest.raises(ValueError, match=told):
        KNNClassifierPipeline(classifier, tokenizer, address, device="cpu")
    with pytest.raises(ImportError, match="has no connect_datastore any more: write KNNDatastore.from_pretrained"):
        docsplit_hf.connect_datastore  # noqa: B018
    from docsplit_hf import finish_save  # not listed any more

    assert finish_save.__name__ not in docsplit_hf.__all__


def test_a_renamed_class_is_imported_by_its_earlier_name():
    with pytest.warns(FutureWarning, match="docsplit_hf.Classifier is now named ExportedClassifier"):
        from docsplit_hf import Classifier
    assert Classifier is docsplit_hf.ExportedClassifier and "Classifier" not in docsplit_hf.__all__


@pytest.mark.parametrize("options", [{}, {"top_k": None}, {"top_k": 2, "batch_size": 4}], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_form_and_order_are_those_of_text_classification(form, options, pipe, stock, texts):
    """With weight 0 it is the classifier, so that the whole answer must be the same."""
    pipe.model.config.knn_weight = 0.0
    answers = [p(FORMS[form](texts), **options) for p in (pipe, stock)]
    ours, theirs = (list(answer) if not isinstance(answer, dict) else [answer] for answer in answers)
    assert type(answers[0]) is type(answers[1]) or form in ("a generator", "a column of a data set")
    flat = [[x for item in answer for x in (item if isinstance(item, list) else [item])] for answer in (ours, theirs)]
    assert len(flat[0]) == len(flat[1])
    for our, their in zip(*flat, strict=True):
        assert our.keys() == their.keys() == {"label", "score"}
        assert our["label"] == their["label"] and our["score"] == pytest.approx(their["score"], abs=1e-5)


def test_options_of_the_pipeline_are_defaults_of_calls(classifier, tokenizer, pipe, texts):
    other = pipeline(
        "docsplit-knn",
        model=classifier,
        tokenizer=tokenizer,
        datastore=pipe.datastore,
        device="cpu",  # a GPU rounds each batch differently
        k=1,
        top_k=None,
    )
    assert isinstance(other, KNNClassifierPipeline)
    assert other(texts[:3]) == pipe(texts[:3], k=1, top_k=None)
    assert other(texts[:3], k=5) == pipe(texts[:3], k=5, top_k=None)


def test_neighbors_are_returned(pipe, texts):
    answer = pipe({"text": texts[3]}, return_neighbors=3)
    assert [set(neighbor) for neighbor in answer["neighbors"]] == [{"label", "text", "id", "distance", "weight"}] * 3
    nearest = answer["neighbors"][0]
    assert (nearest["text"], nearest["id"], nearest["distance"]) == (texts[3], "3", pytest.approx(0, abs=1e-9))
    distances = [neighbor["distance"] for neighbor in answer["neighbors"]]
    assert distances == sorted(distances)
    every = pipe({"text": texts[3]}, return_neighbors=99)["neighbors"]
    assert len(every) == 48 and sum(neighbor["weight"] for neighbor in every) == pytest.approx(1)
    assert all(neighbor["weight"] == 0 for neighbor in every[5:])  # shown, but k is 5
    by_label = pipe({"text": texts[3]}, return_neighbors=5, top_k=None)
    assert all(neighbor["label"] == entry["label"] for entry in by_label for neighbor in entry["neighbors"])
    assert sum(len(entry["neighbors"]) for entry in by_label) == 5


def test_the_score_interpolates_neighbors_and_classifier(pipe, stock, texts):
    voted = sum(n["weight"] for n in pipe({"text": texts[0]}, return_neighbors=5)["neighbors"] if n["label"] == "river")
    said = {entry["label"]: entry["score"] for entry in stock({"text": texts[0]}, top_k=None)}["river"]
    mixed = {entry["label"]: entry["score"] for entry in pipe({"text": texts[0]}, top_k=None)}["river"]
    assert mixed == pytest.approx(0.4 * (48 * voted + 1) / 50 + 0.6 * said, abs=1e-6)


def test_a_window_boundary_changes_nothing(pipe, texts, monkeypatch):
    whole = pipe(list(texts))
    monkeypatch.setattr("docsplit_hf.classifier.answering.WINDOW_TEXTS", 7)
    for parts, expected in zip(pipe(list(texts)), whole, strict=True):
        assert parts["label"] == expected["label"] and parts["score"] == pytest.approx(expected["score"], abs=1e-6)


def test_warnings_about_a_list_are_logged_once(pipe, texts, monkeypatch, caplog):
    monkeypatch.setattr("docsplit_hf.classifier.answering.WINDOW_TEXTS", 10)
    given = ["", "river " * 600, texts[0], texts[1]] * 10
    pipe(given, max_length=64)
    said = sorted(record.message for record in caplog.records)
    assert len(said) == 2 and "10 of 40 texts are empty" in said[0] and "10 of 40 texts are longer" in said[1]
    caplog.clear()
    list(pipe((text for text in given), max_length=64))
    assert sum("are empty" in record.message for record in caplog.records) > 1  # as they come: there may be no end


def test_a_generator_is_read_lazily(pipe, texts):
    read = []
    stream = pipe((read.append(i) or texts[i % 40] for i in range(10**9)), batch_size=4)
    assert "label" in next(stream) and len(read) == 4
    assert len([next(stream) for _ in range(99)]) == 99 and len(read) == 4 + 8 + 16 + 32 + 64


def test_options_are_refused_before_inputs_are_read(pipe, texts):
    read = []
    with pytest.raises(ValueError, match="nothing was fitted"):
        list(pipe((read.append(text) or text for text in texts), method="experts"))
    assert len(read) == 1  # by transformers


def test_an_invalid_input_is_named_by_its_number_in_the_stream(pipe, monkeypatch):
    monkeypatch.setattr("docsplit_hf.classifier.answering.WINDOW_TEXTS", 3)
    with pytest.raises(TypeError, match="Text 7 is None"):
        pipe(["a river"] * 7 + [None])


def test_code_in_a_saved_folder_is_reported_but_not_run(pipe, texts, tmp_path, monkeypatch):
    pipe.save_pretrained(tmp_path)
    assert (code := list(tmp_path.glob("*.py")))
    assert (
        "Python files are for use without it, and run only with `trust_remote_code=True`"
        in (tmp_path / "README.md").read_text()
    )
    for file in code:
        file.write_text("raise SystemExit('the code of the folder ran')")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to run the repository's code"))
    for task in ("docsplit-knn", "text-classification"):
        assert pipeline(task, model=str(tmp_path))(texts[0])[0]["label"] in NAMES
    assert type(AutoModel.from_pretrained(tmp_path)) is docsplit_hf.KNNClassifier


def test_truncated_embeddings_are_compared_kept_and_saved(tmp_path):
    texts = ["Returns the eigenvalues.", "Downloads a data set.", "Computes the determinant.", "Uploads a file."]
    whole = pipeline("docsplit-knn", device="cpu")
    pipe = pipeline("docsplit-knn", device="cpu", truncate_dim=64)
    for one in (whole, pipe):
        one.add_examples(texts, ["numerics", "data", "numerics", "data"])
    cut = whole.datastore.keys[:, :64]
    assert pipe.datastore.keys == pytest.approx(cut / np.linalg.norm(cut, axis=1, keepdims=True), abs=1e-6)
    pipe.save_pretrained(tmp_path)
    loaded = pipeline("docsplit-knn", model=str(tmp_path), device="cpu")
    assert loaded(texts[0], return_neighbors=2) == pipe(texts[0], return_neighbors=2)
    given = pipeline("docsplit-knn", device="cpu", datastore=pipe.datastore, truncate_dim=64, long_documents="whole")
    assert given(texts[0], return_neighbors=2) == pipe(texts[0], return_neighbors=2)
    with pytest.raises(ValueError, match="truncate_dim=32: the texts of the datastore were embedded with 64"):
        pipeline("docsplit-knn", model=str(tmp_path), device="cpu", truncate_dim=32)
    with pytest.raises(StrictDataclassError, match="truncate_dim=385 is more than the 384 dimensions of h"):
        pipeline("docsplit-knn", device="cpu", truncate_dim=385)
    with pytest.raises(StrictDataclassError, match="truncate_dim=8 does not go with decouple=True"):
        KNNClassifierConfig(encoder_config=BertConfig(), truncate_dim=8)


def test_an_encoder_with_a_datastore_logs_its_reading_strategy(caplog):
    pipe = pipeline("docsplit-knn", device="cpu")
    pipe.add_examples(["Returns the eigenvalues.", "Downloads a data set."], ["numerics", "data"])
    for datastore, long_documents, is_logged in (
        (pipe.datastore, None, True),
        (pipe.datastore, "whole", False),
        (docsplit_hf.KNNDatastore.empty(384, probe=pipe.datastore.snapshot.probe), None, False),
    ):
        caplog.clear()
        other = pipeline("docsplit-knn", device="cpu", datastore=datastore, long_documents=long_documents)
        assert other.model.config.long_documents == (long_documents or "first")
        assert is_logged == any("read with long_documents='first': pass it" in message for message in caplog.messages)
    assert pipe.model.config.long_documents == "whole"


def test_all_methods_of_the_pipeline_take_tables(pipe, untrained, texts):
    table = pd.DataFrame({"text": texts[:9]})
    assert pipe(table) == pipe(texts[:9])
    assert untrained.add_examples(table, pd.Series(["a", "b", "c"] * 3)) == [str(i) for i in range(9)]
    assert untrained.datastore.texts == texts[:9]
    held_out = {"held_out_texts": np.array(texts[9:20]), "held_out_labels": np.array(["a"] * 11)}
    assert untrained.calibrate(**held_out).examples == 11
    assert pipe(pd.DataFrame({"text": []})) == pipe([]) == list(pipe(text for text in ())) == []
