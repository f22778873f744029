"""Evaluation of pipelines, with confidence intervals."""

import copy
import json

import evaluate
import numpy as np
import pandas as pd
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, List, Value
from transformers import BertForSequenceClassification, BertModel, pipeline

from docsplit_hf import KNNClassifier, KNNClassifierConfig, KNNClassifierPipeline, evaluate_pipeline, metric_path
from docsplit_hf.metrics.registry import CLASSIFICATION

NAMES = ["river", "engine", "other"]
SCRIPT = """
import json, sys
import evaluate, numpy as np, transformers
import docsplit_hf
from docsplit_hf.metrics.registry import CLASSIFICATION

probabilities = np.random.default_rng(0).dirichlet(np.ones(4), 50)
labels = np.random.default_rng(1).integers(0, 4, 50)
scores = {}
for name in CLASSIFICATION:
    scores |= evaluate.load(docsplit_hf.metric_path(name)).compute(predictions=probabilities, references=labels)
splits = docsplit_hf.load_labeled_examples(sys.argv[2], validation_size=0)
pipe = transformers.pipeline("docsplit-knn", model=sys.argv[1], device="cpu")
result = docsplit_hf.evaluate_pipeline(pipe, splits["train"], strategy="bootstrap", n_resamples=20, random_state=0)
print(json.dumps({"pipeline": result, "loaded": sorted(scores)}))
"""


@pytest.fixture
def examples(texts):
    labels = [next((i for i, name in enumerate(NAMES) if name in text), 2) for text in texts]
    return Dataset.from_dict({"text": texts, "label": labels}).cast_column("label", ClassLabel(names=NAMES))


@pytest.fixture
def pipe(tiny_config, tokenizer, examples):
    torch.manual_seed(0)
    model = KNNClassifier(KNNClassifierConfig(encoder_config=tiny_config, id2label=dict(enumerate(NAMES)), k=3))
    pipe = KNNClassifierPipeline(model=model, tokenizer=tokenizer, device="cpu")
    pipe.add_examples(examples["text"][:24], [NAMES[label] for label in examples["label"][:24]])
    return pipe


def right_answers(pipe, examples):
    answers = pipe(examples["text"][:])
    return [answer["label"] == NAMES[label] for answer, label in zip(answers, examples["label"], strict=True)]


def test_examples_that_the_pipeline_has_learned_from_are_counted(pipe, examples, caplog):
    evaluate_pipeline(pipe, examples.select(range(20, 40)), "accuracy")
    assert "4 of 20 texts are examples of the pipeline" in caplog.text
    caplog.clear()
    evaluate_pipeline(pipe, examples.select(range(24, 40)), "accuracy")
    assert "examples of the pipeline" not in caplog.text


@pytest.mark.slow
def test_in_another_interpreter_without_network_or_cache(pipe, examples, tmp_path, run_script):
    pipe.save_pretrained(tmp_path / "classifier")
    rows = zip(examples["text"], examples["label"], strict=True)
    lines = [json.dumps({"text": text, "label": NAMES[label]}) for text, label in rows]
    (tmp_path / "examples.jsonl").write_text("\n".join(lines))
    (tmp_path / "script.py").write_text(SCRIPT)
    printed = run_script(
        tmp_path / "script.py",
        tmp_path / "classifier",
        tmp_path / "examples.jsonl",
        HF_HUB_OFFLINE="1",
        HF_HOME=str(tmp_path / "home"),
    )
    found = json.loads(printed.splitlines()[-1])
    assert found["loaded"] == sorted(CLASSIFICATION)
    result = found["pipeline"]
    assert result["accuracy"]["score"] == np.mean(right_answers(pipe, examples))
    for name in ("accuracy", "macro_f1", "matthews_correlation", "log_loss", "expected_calibration_error"):
        low, high = result[name]["confidence_interval"]
        constant = name == "matthews_correlation" and low == high == 0  # all answers are one label
        assert constant or low < high and result[name]["standard_error"] > 0
    assert result["samples_per_second"] == pytest.approx(1 / result["latency_in_seconds"])


class TakesLabels(evaluate.Metric):
    """A metric of labels, like most of evaluate's own."""

    def _info(self):
        features = Features({"predictions": Value("int64"), "references": Value("int64")})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        return {"share": float(np.mean(np.array(predictions) == np.array(references)))}


@pytest.mark.parametrize("several", [False, True])
def test_fitted_experts_are_evaluated_by_their_answers(tiny_config, tokenizer, examples, several):
    torch.manual_seed(0)
    pipe = KNNClassifierPipeline(model=BertModel(tiny_config), tokenizer=tokenizer, device="cpu")
    texts = examples["text"][:]
    numbers = examples["label"][:]
    pipe.add_examples(texts[:32], [[NAMES[label]] if several else NAMES[label] for label in numbers[:32]])
    pipe.add_documents(texts[32:40])
    pipe.fit(show_progress=False)
    if several:
        rows = {"text": texts, "label": [[label] for label in numbers]}
        examples = Dataset.from_dict(rows).cast_column("label", List(ClassLabel(names=NAMES)))
    scores = [{answer["label"]: answer["score"] for answer in answers} for answers in pipe(texts, top_k=None)]
    scores = np.array([[of_text[name] for name in NAMES] for of_text in scores])
    gold = np.eye(3, dtype=bool)[numbers]
    likelihood = np.where(gold, scores, 1 - scores) if several else scores[gold]
    assert evaluate_pipeline(pipe, examples, "log_loss")["log_loss"] == pytest.approx(-np.log(likelihood).mean())
    assert set(evaluate_pipeline(pipe, examples)) == set(
        evaluate_pipeline(pipe, examples, method="knn", k=3)
    )  # by equation 3


def test_metrics_of_labels_get_labels(pipe, examples):
    expected = np.mean(right_answers(pipe, examples))
    assert evaluate_pipeline(pipe, examples, TakesLabels())["share"] == expected
    both = evaluate.combine([TakesLabels(), metric_path("accuracy")])
    result = evaluate_pipeline(pipe, examples, both)
    assert result["share"] == result["accuracy"] == expected


def test_the_stock_pipeline_is_evaluated_too(tiny_config, tokenizer, examples):
    torch.manual_seed(0)
    tiny_config.id2label = {0: "other", 1: "engine", 2: "river", 3: "unseen"}  # another order, and one more
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.model_max_length = 64
    stock = pipeline(
        "text-classification", model=BertForSequenceClassification(tiny_config), tokenizer=tokenizer, device="cpu"
    )
    answers = stock(examples["text"][:], truncation=True)
    right = [answer["label"] == NAMES[label] for answer, label in zip(answers, examples["label"], strict=True)]
    assert evaluate_pipeline(stock, examples, "accuracy")["accuracy"] == np.mean(right)
    with_pairs = examples.add_column("text_pair", examples["text"][::-1])
    assert evaluate_pipeline(stock, with_pairs)["log_loss"] != evaluate_pipeline(stock, examples)["log_loss"]


@pytest.mark.parametrize("table", [pd.DataFrame, Dataset.from_pandas, lambda frame: frame.to_dict("list"),
                                   lambda frame: frame.to_dict("records")])  # fmt: skip
def test_any_table_with_names_of_labels(pipe, examples, table, tmp_path):
    frame = examples.to_pandas().assign(label=[NAMES[label] for label in examples["label"]])
    frame.to_csv(tmp_path / "test.csv", index=False)
    found = evaluate_pipeline(pipe, table(pd.read_csv(tmp_path / "test.csv")))
    expected = evaluate_pipeline(pipe, examples)
    assert {name: found[name] for name in CLASSIFICATION} == {
        name: pytest.approx(expected[name]) for name in CLASSIFICATION
    }


@pytest.mark.parametrize("as_table", [pd.DataFrame, lambda frame: Dataset.from_pandas(frame)])
def test_columns_of_other_names_are_named(pipe, examples, as_table):
    labels = [NAMES[label] for label in examples["label"]]
    frame = pd.DataFrame({"number": range(len(labels)), "kind": labels, "body": examples["text"][:]})
    found = evaluate_pipeline(pipe, as_table(frame), text_column="body", label_column="kind")
    assert found["log_loss"] == pytest.approx(evaluate_pipeline(pipe, examples)["log_loss"])


def test_a_class_label_and_pairs_of_other_names(pipe, examples):
    renamed = examples.add_column("second", examples["text"][::-1]).rename_columns({"text": "first", "label": "kind"})
    found = evaluate_pipeline(pipe, renamed, text_column="first", label_column="kind", text_pair_column="second")
    paired = examples.add_column("text_pair", examples["text"][::-1])
    assert found["log_loss"] == pytest.approx(evaluate_pipeline(pipe, paired)["log_loss"])


def test_numbers_truth_values_and_lists_are_labels_by_name():
    def pipe(texts, **options):
        return [[{"label": "1", "score": 0.6}, {"label": "0", "score": 0.4}] for _ in texts]

    assert evaluate_pipeline(pipe, {"text": ["a", "b"], "label": [1, 0]}, "accuracy")["accuracy"] == 0.5
    several = {"text": ["a", "b", "c"], "label": [["1"], ["0", "1"], []]}
    assert evaluate_pipeline(pipe, several, "accuracy")["accuracy"] == pytest.approx(1 / 3)

    def pipe_of_truth_values(texts, **options):
        return [[{"label": "true", "score": 0.6}, {"label": "false", "score": 0.4}] for _ in texts]

    truth_values = {"text": ["a", "b"], "label": [True, False]}
    assert evaluate_pipeline(pipe_of_truth_values, truth_values, "accuracy")["accuracy"] == 0.5


def test_several_labels_per_text(examples):
    def pipe(texts, **options):  # "unseen" is no label of the data, so predicting it is always wrong
        predicted = [NAMES, [*NAMES, "unseen"]]
        return [[{"label": name, "score": 0.8} for name in names] for names in predicted]

    data = Dataset.from_dict({"text": ["a", "b"], "label": [[0, 1, 2], [0, 1, 2]]})
    data = data.cast_column("label", List(ClassLabel(names=NAMES)))
    assert evaluate_pipeline(pipe, data, "accuracy")["accuracy"] == 0.5


@pytest.mark.parametrize("options, message", [
    ({"strategy": "jackknife"}, "'jackknife'"),
    ({"metric": "f1"}, "no metric 'f1'"),
    ({"text_column": "body"}, r"no column 'body' among \['text', 'label'\]: choose text_column"),
    ({"label_column": "kind"}, r"no column 'kind' among \['text', 'label'\]: choose label_column"),
    ({"data": [{"text": "a", "kind": "river"}]}, r"no column 'label' among \['text', 'kind'\]: choose label_column"),
    ({"data": {"text": ["a", "b"], "label": ["river", None]}}, r"Row 1 has no label \(None\): leave it out"),
    ({"data": {"text": ["a", "b"], "label": ["river", "rivers"]}}, "has no label 'rivers' as in the data"),
    ({"names": ["a", "b"]}, "has no label 'a' as in the data, only engine, other, river"),
])  # fmt: skip
def test_what_cannot_be_evaluated_is_named(pipe, examples, options, message):
    if "names" in options:
        options = {"data": examples.cast_column("label", ClassLabel(names=[*options["names"], "c"]))}
    with pytest.raises(ValueError, match=message):
        evaluate_pipeline(pipe, **{"data": examples, **options})
