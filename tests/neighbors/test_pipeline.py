import json
import pathlib
import shutil
import subprocess
import sys
import threading

import evaluate
import huggingface_hub
import numpy as np
import pandas as pd
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Value
from transformers import AutoModel, BertModel, pipeline
from transformers.pipelines.pt_utils import KeyDataset

import docsplit_hf
from docsplit_hf import KNNClassifier, KNNClassifierConfig, KNNClassifierPipeline, KNNDatastore
from docsplit_hf.models.portable.packing import is_packed

NAMES = ["river", "engine"]


@pytest.fixture(scope="module")
def classifier(make_tiny_config):
    torch.manual_seed(0)
    config = KNNClassifierConfig(
        encoder_config=make_tiny_config(), id2label=dict(enumerate(NAMES)), pooling="mean", k=5, knn_weight=0.4
    )
    return KNNClassifier(config)


@pytest.fixture(scope="module")
def examples(texts):
    data = Dataset.from_dict({"text": texts, "label": [int("river" in text) for text in texts]})
    return data.cast_column("label", ClassLabel(names=NAMES))


@pytest.fixture
def pipe(classifier, tokenizer, examples):
    datastore = KNNDatastore.build(classifier, tokenizer, examples, show_progress=False)
    return KNNClassifierPipeline(model=classifier, tokenizer=tokenizer, datastore=datastore, device="cpu")


@pytest.fixture
def untrained(tiny_config, tokenizer):
    torch.manual_seed(0)
    return pipeline("docsplit-knn", model=BertModel(tiny_config), tokenizer=tokenizer, device="cpu")


@pytest.fixture
def stock(classifier, tokenizer):
    short = {"truncation": True, "max_length": 64}  # which ours does by itself
    return pipeline("text-classification", model=classifier, tokenizer=tokenizer, device="cpu", **short)


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


def test_it_runs_without_padding_and_says_the_same(classifier, tokenizer, examples, texts):
    answers = {}
    for packing in ("auto", "off"):
        datastore = KNNDatastore.build(classifier, tokenizer, examples, packing=packing, show_progress=False)
        pipe = KNNClassifierPipeline(classifier, tokenizer, datastore, packing=packing, device="cpu")
        assert is_packed(classifier.encoder) == (packing == "auto")
        answers[packing] = [answer["score"] for answer in pipe(texts)]
    assert answers["auto"] == pytest.approx(answers["off"], abs=1e-5)
    coarse = [answer["score"] for answer in pipe(texts, bf16=True)]
    assert 0 < np.abs(np.subtract(coarse, answers["off"])).mean() < 0.02
    with pytest.raises(ValueError, match="'maybe'"):
        KNNClassifierPipeline(classifier, tokenizer, datastore, packing="maybe", device="cpu")


@pytest.mark.parametrize("options", [{}, {"top_k": 1}, {"top_k": None}, {"top_k": 2, "batch_size": 4}], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_form_and_order_are_those_of_text_classification(form, options, pipe, stock, texts):
    """With weight 0 it is the classifier, so that the whole answer must be the same."""
    answers = [p(FORMS[form](texts), **options, **more) for p, more in ((pipe, {"knn_weight": 0.0}), (stock, {}))]
    ours, theirs = (list(answer) if not isinstance(answer, dict) else [answer] for answer in answers)
    assert type(answers[0]) is type(answers[1]) or form in ("a generator", "a column of a data set")
    flat = [[x for item in answer for x in (item if isinstance(item, list) else [item])] for answer in (ours, theirs)]
    assert len(flat[0]) == len(flat[1])
    for our, their in zip(*flat, strict=True):
        assert our.keys() == their.keys() == {"label", "score"}
        assert our["label"] == their["label"] and our["score"] == pytest.approx(their["score"], abs=1e-5)


def test_options_given_to_the_pipeline_hold_for_each_call(classifier, tokenizer, pipe, texts):
    other = pipeline(
        "docsplit-knn", model=classifier, tokenizer=tokenizer, datastore=pipe.datastore, k=1, knn_weight=1.0, top_k=None
    )
    assert isinstance(other, KNNClassifierPipeline)
    assert other(texts[:3]) == pipe(texts[:3], k=1, knn_weight=1.0, top_k=None)
    assert other(texts[:3], k=5) == pipe(texts[:3], k=5, knn_weight=1.0, top_k=None)


def test_weight_one_and_one_neighbor_is_the_label_of_the_nearest(pipe, texts, examples):
    for answer, label in zip(pipe(list(texts), k=1, knn_weight=1.0), examples["label"], strict=True):
        assert answer == {"label": NAMES[label], "score": pytest.approx(49 / 50)}  # 48 examples, and one of each label


def test_neighbors_are_named(pipe, texts):
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


def test_the_score_is_the_mixture_of_what_neighbors_and_classifier_say(pipe, stock, texts):
    voted = sum(n["weight"] for n in pipe({"text": texts[0]}, return_neighbors=5)["neighbors"] if n["label"] == "river")
    said = {entry["label"]: entry["score"] for entry in stock({"text": texts[0]}, top_k=None)}["river"]
    mixed = {entry["label"]: entry["score"] for entry in pipe({"text": texts[0]}, top_k=None)}["river"]
    assert mixed == pytest.approx(0.4 * (48 * voted + 1) / 50 + 0.6 * said, abs=1e-6)


def test_a_window_boundary_changes_nothing(pipe, texts, monkeypatch):
    whole = pipe(list(texts))
    monkeypatch.setattr("docsplit_hf.neighbors.pipeline.WINDOW", 7)
    for parts, expected in zip(pipe(list(texts)), whole, strict=True):
        assert parts["label"] == expected["label"] and parts["score"] == pytest.approx(expected["score"], abs=1e-6)


def test_what_is_said_of_a_list_is_said_once(pipe, texts, monkeypatch, caplog):
    monkeypatch.setattr("docsplit_hf.neighbors.pipeline.WINDOW", 10)
    given = ["", "river " * 600, texts[0], texts[1]] * 10
    pipe(given, max_length=64)
    said = sorted(record.message for record in caplog.records)
    assert len(said) == 2 and "10 of 40 texts are empty" in said[0] and "10 of 40 texts are longer" in said[1]
    caplog.clear()
    list(pipe((text for text in given), max_length=64))
    assert sum("are empty" in record.message for record in caplog.records) > 1  # as they come: there may be no end


def test_a_generator_is_read_as_answers_are_asked_for(pipe, texts, monkeypatch):
    monkeypatch.setattr("docsplit_hf.neighbors.pipeline.WINDOW", 2)
    read = []
    stream = pipe(read.append(i) or texts[i % 40] for i in range(10**9))
    assert "label" in next(stream) and len(read) < 10


def test_a_generator_gives_its_first_answers_soon(pipe, texts):
    read = []
    stream = pipe((read.append(i) or texts[i % 40] for i in range(100)), batch_size=4)
    assert next(stream) and len(read) == 4
    assert len(list(stream)) == 99


def test_texts_and_pairs_may_be_mixed(pipe, texts):
    pair = {"text": texts[1], "text_pair": texts[2]}
    mixed = pipe([texts[0], pair, texts[3]])
    assert [answer["label"] for answer in mixed] == [pipe([one])[0]["label"] for one in (texts[0], pair, texts[3])]
    assert mixed[1]["score"] == pytest.approx(pipe([pair])[0]["score"], abs=1e-6)


def test_the_number_of_a_bad_input_is_that_in_the_whole_stream(pipe, monkeypatch):
    monkeypatch.setattr("docsplit_hf.neighbors.pipeline.WINDOW", 3)
    with pytest.raises(TypeError, match="Text 7 is None"):
        pipe(["a river"] * 7 + [None])


def test_empty_input_gives_nothing(pipe):
    assert pipe([]) == [] and list(pipe(text for text in ())) == []


def test_evaluator_takes_it(pipe, examples, monkeypatch):
    # evaluate 0.4.6 asks transformers 5 for a class that went with transformers 4, whatever the pipeline.
    monkeypatch.setattr("transformers.TFPreTrainedModel", type("TFPreTrainedModel", (), {}), raising=False)

    class Accuracy(evaluate.Metric):
        def _info(self):
            features = Features({"predictions": Value("int64"), "references": Value("int64")})
            return evaluate.MetricInfo(description="", citation="", features=features)

        def _compute(self, predictions, references):
            return {"accuracy": float(np.mean(np.array(predictions) == np.array(references)))}

    evaluator = evaluate.evaluator("text-classification")
    results = evaluator.compute(
        pipe, examples, metric=Accuracy(), label_mapping={name: i for i, name in enumerate(NAMES)}, input_column="text"
    )
    expected = [answer["label"] for answer in pipe(examples["text"][:])]
    assert results["accuracy"] == np.mean(
        [NAMES.index(e) == g for e, g in zip(expected, examples["label"], strict=True)]
    )


def test_examples_on_an_encoder_without_a_head_are_a_classifier(untrained, texts):
    names = ["river" if "river" in text else "other" for text in texts]
    ids = untrained.add_examples(texts[:40], names[:40])
    assert ids == [str(i) for i in range(40)]
    assert untrained.model.config.knn_calibration["examples"] == 40
    answers = untrained(texts[:40], k=1)
    assert [answer["label"] for answer in answers] == names[:40]
    untrained.remove_examples(ids[:20])
    left = untrained({"text": texts[0]}, return_neighbors=64, k=64)["neighbors"]
    assert len(left) == 20 and not {neighbor["id"] for neighbor in left} & set(ids[:20])
    untrained.add_examples([texts[0]], ["brand new"], ids=["mine"], allow_new_labels=True)
    assert untrained({"text": texts[0]}, k=1)["label"] == "brand new"


def test_a_datastore_given_to_a_plain_encoder_is_calibrated(untrained, tiny_config, tokenizer, texts):
    names = ["river" if "river" in text else "other" for text in texts]
    untrained.add_examples(texts, names)
    torch.manual_seed(0)
    again = KNNClassifierPipeline(
        model=BertModel(tiny_config), tokenizer=tokenizer, datastore=untrained.datastore, device="cpu"
    )
    assert again(list(texts)) == untrained(list(texts))


def test_a_failed_addition_leaves_nothing_behind(untrained, texts):
    with pytest.raises(TypeError, match="not a name"):
        untrained.add_examples([texts[0]], [None])
    assert untrained.datastore is None and untrained.add_examples([texts[0]], ["river"]) == ["0"]


def test_several_labels(untrained, texts):
    untrained.add_examples(texts[:10], [["a", "b"], ["b"]] * 5)
    (answer,) = untrained([texts[1]], k=1, top_k=None, return_neighbors=1)
    scores = {entry["label"]: entry["score"] for entry in answer}
    assert scores == {"b": pytest.approx(11 / 12), "a": pytest.approx(1 / 12)}
    assert answer[0]["neighbors"][0]["labels"] == ["b"]


def test_new_labels_after_training_get_what_the_neighbors_give(pipe, texts):
    pipe.add_examples(["a glacier in winter"], ["ice"], allow_new_labels=True)
    answer = pipe({"text": "a glacier in winter"}, k=1, top_k=None)
    assert {entry["label"]: entry["score"] for entry in answer}["ice"] == pytest.approx(0.4 * 50 / 52)
    assert sum(entry["score"] for entry in answer) == pytest.approx(1)


def test_calibration_on_held_out_texts_is_kept(pipe, texts, tmp_path):
    held_out = [text + " again" for text in texts[:30]]
    labels = ["engine" if "river" in text else "river" for text in texts[:30]]
    calibration = pipe.calibrate(held_out, labels)
    pipe.save_pretrained(tmp_path)
    config = AutoModel.from_pretrained(tmp_path).config
    assert (config.k, config.knn_temperature, config.knn_weight) == (
        calibration.k, calibration.temperature, calibration.weight,
    )  # fmt: skip
    assert config.knn_calibration["source"] == "held-out examples"


CHILD = """
import json, sys
import docsplit_hf
from transformers import pipeline
pipe = pipeline("docsplit-knn", model=sys.argv[1], device="cpu")
print(json.dumps(pipe(json.load(open(sys.argv[2])), return_neighbors=4)))
"""


def same_in_a_fresh_interpreter(folder, texts, expected, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    command = [sys.executable, "-c", CHILD, str(moved), str(tmp_path / "texts.json")]
    finished = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr[-2000:]
    answers = json.loads(finished.stdout.strip().splitlines()[-1])
    for answer, expectation in zip(answers, expected, strict=True):
        assert answer["label"] == expectation["label"]
        assert answer["score"] == pytest.approx(expectation["score"], abs=1e-6)
        for neighbor, other in zip(answer["neighbors"], expectation["neighbors"], strict=True):
            assert (neighbor["id"], neighbor["text"]) == (other["id"], other["text"])


def test_saved_is_loaded_in_a_fresh_interpreter(pipe, texts, tmp_path):
    expected = pipe(list(texts[:12]), return_neighbors=4)
    pipe.save_pretrained(tmp_path / "saved")
    assert "custom_pipelines" not in (tmp_path / "saved" / "config.json").read_text()
    same_in_a_fresh_interpreter(tmp_path / "saved", list(texts[:12]), expected, tmp_path)


def test_pushed_is_loaded_in_a_fresh_interpreter(untrained, texts, tmp_path, monkeypatch):
    """A local folder stands for the repository; what is uploaded, and what is deleted there, is ours to decide."""
    repository = tmp_path / "repository"
    (repository / "datastore").mkdir(parents=True)
    (repository / "datastore" / "keys-of-before.safetensors").touch()

    def upload_folder(self, *, repo_id, folder_path, commit_message, delete_patterns):
        for path in repository.rglob("*"):
            if pathlib.PurePath(path.relative_to(repository)).match(delete_patterns):
                path.unlink()
        shutil.copytree(folder_path, repository, dirs_exist_ok=True)

    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload_folder)
    monkeypatch.setattr(
        huggingface_hub.HfApi, "create_repo", lambda self, repo_id, **kwargs: huggingface_hub.RepoUrl(f"me/{repo_id}")
    )
    monkeypatch.setattr(huggingface_hub.HfApi, "file_exists", lambda self, repo_id, filename, revision=None: False)
    untrained.add_examples(list(texts[:20]), ["a", "b"] * 10)
    expected = untrained(list(texts[:12]), return_neighbors=4)
    untrained.push_to_hub("classifier")
    assert not (repository / "datastore" / "keys-of-before.safetensors").exists()
    assert 'model="me/classifier"' in (repository / "README.md").read_text()
    same_in_a_fresh_interpreter(repository, list(texts[:12]), expected, tmp_path)


def test_no_trust_remote_code_is_asked_for(pipe, texts, tmp_path, monkeypatch):
    pipe.save_pretrained(tmp_path)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to run the repository's code"))
    for task in ("docsplit-knn", "text-classification"):
        assert pipeline(task, model=str(tmp_path))(texts[0])[0]["label"] in NAMES
    assert type(AutoModel.from_pretrained(tmp_path)) is docsplit_hf.KNNClassifier


def test_two_threads_classify_while_a_third_adds_and_removes(pipe, texts):
    stop, errors = threading.Event(), []

    def classify():
        while not stop.is_set():
            answer = pipe({"text": texts[0]}, return_neighbors=5)
            for neighbor in answer["neighbors"]:
                if neighbor["label"] == "river" and "garden gate" in neighbor["text"]:
                    errors.append(neighbor)

    threads = [threading.Thread(target=classify) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(15):
        pipe.remove_examples(pipe.add_examples([f"garden gate {i} {texts[0]}"], ["engine"]))
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors


def names_of(texts):
    return ["river" if "river" in text else "other" for text in texts]


def calibrated(pipe):
    return pipe.model.config.k, pipe.model.config.knn_temperature, pipe(["the river", "a glacier"], top_k=None)


def test_adding_the_same_examples_again_changes_nothing(untrained, texts, caplog):
    """As running a cell of a notebook again does."""
    ids = untrained.add_examples(texts[:40], names_of(texts[:40]))
    before = calibrated(untrained)
    assert untrained.add_examples(texts[:40], names_of(texts[:40])) == ids
    assert len(untrained.datastore) == 40 and calibrated(untrained) == before
    assert "40 of 40 examples are there already" in caplog.text
    more = untrained.add_examples([texts[40], texts[3], texts[40]], names_of([texts[40], texts[3], texts[40]]))
    assert more == ["40", "3", "40"] and len(untrained.datastore) == 41
    assert "2 of 3 examples are there already" in caplog.text


def test_duplicates_that_are_asked_for_do_not_touch_the_calibration(untrained, texts):
    untrained.add_examples(texts[:40], names_of(texts[:40]))
    k, temperature, once = calibrated(untrained)
    ids = untrained.add_examples(texts[:40], names_of(texts[:40]), allow_duplicates=True)
    assert ids == [str(i) for i in range(40, 80)]
    twice_k, same_temperature, twice = calibrated(untrained)
    assert k > 1 and twice_k == 2 * k and same_temperature == pytest.approx(temperature, rel=1e-3)
    assert [[a["score"] for a in answer] for answer in twice] == [
        pytest.approx([a["score"] for a in answer], abs=0.0125)
        for answer in once  # 40 examples are less sure than 80
    ]


def test_what_is_the_same_example(untrained, texts):
    """The text, its pair and its labels; not its id, which is given back as it was."""
    pair = {"text": texts[0], "text_pair": texts[1]}
    first = untrained.add_examples([texts[0], pair, texts[1]], [["a", "b"], ["a"], ["b"]], ids=["x", "y", "z"])
    assert first == ["x", "y", "z"]
    again = untrained.add_examples(
        [pair, texts[0], texts[0], texts[1], pair], [["a"], ["b", "a"], ["a"], ["b"], []], ids=list("12345")
    )
    assert again == ["y", "x", "3", "z", "5"] and untrained.datastore.ids == ["x", "y", "z", "3", "5"]


def test_one_text_with_two_labels_is_kept_and_not_calibrated_on(untrained, texts):
    assert untrained.add_examples([texts[0]] * 2, ["a", "b"]) == ["0", "1"]
    assert untrained.model.config.knn_calibration is None
    with pytest.raises(ValueError, match="all the same text"):
        untrained.calibrate()


TABLES = {
    "an array": np.array,
    "an array of objects": lambda texts: np.array(texts, dtype=object),
    "a series": lambda texts: pd.Series(texts, index=range(9, 9 + len(texts))),
    "a series of strings": lambda texts: pd.Series(texts, dtype="string").sort_index(ascending=False)[::-1],
    "a column": lambda texts: Dataset.from_dict({"body": texts})["body"],
    "a tuple": tuple,
    "a frame": lambda texts: pd.DataFrame({"label": 0, "text": texts}, index=texts),
    "a data set": lambda texts: Dataset.from_dict({"text": texts, "label": [0] * len(texts)}),
}


@pytest.mark.parametrize("form", TABLES)
def test_columns_and_tables_are_taken_in_their_order(form, pipe, untrained, texts):
    given = TABLES[form](texts[:9])
    answers = pipe(given, top_k=1)
    assert isinstance(answers, list) and answers == pipe(texts[:9], top_k=1)
    assert untrained.add_examples(given, pd.Series(["a", "b", "c"] * 3)) == [str(i) for i in range(9)]
    assert untrained.datastore.texts == texts[:9]
    assert untrained.calibrate(TABLES[form](texts[9:20]), np.array(["a"] * 11)).examples == 11


@pytest.mark.parametrize("table", [pd.DataFrame, Dataset.from_dict], ids=["frame", "data set"])
def test_tables_of_pairs(table, pipe, untrained, texts):
    columns = {"text": texts[:4], "text_pair": [texts[5], None, texts[6], texts[7]]}
    pairs = [{"text": text, "text_pair": pair} for text, pair in zip(*columns.values(), strict=True)]
    assert pipe(table(columns)) == pipe(pairs)
    untrained.add_examples(table(columns), ["a", "b", "a", "b"])
    assert untrained.datastore.text_pairs == columns["text_pair"]


@pytest.mark.parametrize(
    "given, message",
    [
        (np.array([["a", "b"]]), "shape \\(1, 2\\)"),
        (np.array([1, 2]), "Text 0 is 1, not a string"),
        (pd.Series(["a", None]), "Text 1 is (None|nan), not a string"),
        (pd.DataFrame({"text": ["a", None]}), "Text 1 is None, not a string"),
        (pd.DataFrame({"body": ["a"]}), "no column 'text' among \\['body'\\]"),
        (Dataset.from_dict({"body": ["a"]}), "no column 'text' among \\['body'\\]"),
    ],
    ids=str,
)
def test_tables_that_hold_no_texts_are_refused(given, message, pipe):
    for take in (pipe, lambda texts: pipe.add_examples(texts, ["river"] * len(texts))):
        with pytest.raises(TypeError, match=message):
            take(given)


def test_empty_tables_give_nothing(pipe):
    assert pipe(np.array([], dtype=str)) == pipe(pd.DataFrame({"text": []})) == pipe(pd.Series([], dtype=str)) == []


def test_progress_is_shown_when_asked_for(pipe, texts, capsys, monkeypatch):
    monkeypatch.setattr("docsplit_hf.neighbors.pipeline.WINDOW_WITH_PROGRESS", 5)
    expected = pipe(texts[:12])
    assert capsys.readouterr().err == ""
    assert [answer["label"] for answer in pipe(texts[:12], show_progress=True)] == [a["label"] for a in expected]
    bar = capsys.readouterr().err
    assert "12/12" in bar and bar.count("0/12") == 1
    assert list(pipe((text for text in texts[:3]), show_progress=True)) and "3text" in capsys.readouterr().err
    assert pipe(texts[0], show_progress=True)[0]["label"] == expected[0]["label"]
    with pytest.raises(ValueError, match="show_progress must be True or False, got 3"):
        pipe(texts[:2], show_progress=3)
