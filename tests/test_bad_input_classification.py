"""Bad input to classification, case by case: what is done, and what the user is told."""

import copy

import pytest
import torch
from datasets import ClassLabel, Dataset, List
from transformers import BertModel, pipeline

from docsplit_hf import (
    KNNClassifier,
    KNNClassifierConfig,
    KNNClassifierPipeline,
    KNNClassifierTrainer,
    KNNClassifierTrainingArguments,
    KNNDatastore,
)
from docsplit_hf.encoding.classifier_embedder import make_embedder

NAMES = ["river", "engine"]


class Case:
    """What the cases act on: a classifier with a datastore, an encoder without, their tokenizer, a folder."""

    def __init__(self, config, tokenizer, texts, folder):
        torch.manual_seed(0)
        self.config, self.tokenizer, self.texts, self.folder = config, tokenizer, texts, folder
        self.model = KNNClassifier(KNNClassifierConfig(encoder_config=config, id2label=dict(enumerate(NAMES)), k=4))
        self.examples = self.labeled([i % 2 for i in range(len(texts))])

    def labeled(self, labels, names=NAMES, label=ClassLabel, texts=None):
        data = Dataset.from_dict({"text": texts or self.texts[: len(labels)], "label": labels})
        return data.cast_column("label", label(names=names))

    def store(self, model=None):
        return KNNDatastore.build(model or self.model, self.tokenizer, self.examples, show_progress=False)

    def pipe(self, datastore=None, model=None):
        datastore = self.store() if datastore is None else datastore
        return KNNClassifierPipeline(
            model=model or self.model, tokenizer=self.tokenizer, datastore=datastore, device="cpu"
        )

    def untrained(self):
        return KNNClassifierPipeline(model=BertModel(self.config), tokenizer=self.tokenizer, device="cpu")

    def train(self, data=None, model=None, tokenizer=True, **arguments):
        args = KNNClassifierTrainingArguments(str(self.folder), use_cpu=True, disable_tqdm=True, **arguments)
        tokenizer = self.tokenizer if tokenizer else None
        return KNNClassifierTrainer(
            model or self.model, args, self.examples if data is None else data, processing_class=tokenizer
        )


def call(**options):
    return lambda c: c.pipe()("a river", **options)


ERRORS = {
    # texts and labels
    "a label that is kept secret": (
        lambda c: KNNDatastore.build(c.model, c.tokenizer, c.labeled([0, 1, -1])), ValueError, "row 2 is -1",
    ),
    "a length beyond the positions": (call(max_length=65), ValueError, "65 is more than the 64 positions"),
    # arguments of a call
    "k = 0": (call(k=0), ValueError, "k must be a whole number from 1, got 0"),
    "k no whole number": (call(k=2.5), ValueError, "got 2.5"),
    "return_neighbors negative": (call(return_neighbors=-1), ValueError, "from 0, got -1"),
    "top_k = 0": (call(top_k=0), ValueError, r"from 1, or None \(null in JSON\) for all labels, got 0"),
    "an unknown argument": (call(temperature=1), TypeError, "no argument 'temperature'"),
    "no truncation": (call(truncation=False), ValueError, "always cut"),
    "weights of float16": (lambda c: c.train(model=c.model.half()), ValueError, r'of float16.*dtype="float32"'),
    "held-out texts without labels": (
        lambda c: c.pipe().calibrate(held_out_texts=["a"]), ValueError, "and their labels, or neither",
    ),
    "held-out labels without texts": (
        lambda c: c.pipe().calibrate(held_out_labels=["river"]), ValueError, "or neither",
    ),
    "fewer labels than texts": (
        lambda c: c.pipe().calibrate(held_out_texts=["a", "b"], held_out_labels=["river"]),
        ValueError, "2 texts and 1 labels: give one label",
    ),
    "held-out texts to calibrate on without their name": (
        lambda c: c.pipe().calibrate(["a"], ["river"]),
        TypeError, r"add_examples was given. .* by name: calibrate\(held_out_texts=texts, held_out_labels=labels\)",
    ),
    "texts to fit by their earlier name": (
        lambda c: c.pipe().fit(texts=["a"], labels=["river"]),
        TypeError, r"add_examples was given. .* by name: fit\(held_out_texts=texts, held_out_labels=labels\)",
    ),
    "documents that are read in another way": (
        lambda c: c.pipe().add_documents(["a"], long_documents="first"), TypeError, "no argument 'long_documents' here",
    ),
    # datastores
    "an empty datastore": (
        lambda c: (pipe := c.pipe(), pipe.remove_examples(pipe.datastore.ids), pipe("a")), ValueError, "add_examples",
    ),
    "a model folder without a datastore": (
        lambda c: (c.model.save_pretrained(c.folder), c.tokenizer.save_pretrained(c.folder),
                   pipeline("docsplit-knn", model=str(c.folder))("a")),
        ValueError, "No labeled examples yet in .*add_examples.*text-classification",
    ),
    "a datastore of another encoder": (
        lambda c: c.pipe(c.store(KNNClassifier(copy.deepcopy(c.model.config)))), ValueError, "another encoder",
    ),
    "a datastore of other labels": (
        lambda c: c.pipe(
            KNNDatastore(c.store().keys, ["x"] * 48, ["x"], probe=make_embedder(c.model, c.tokenizer).probe())
        ),
        ValueError, "classifier's labels are .*begin with",
    ),
    "no tokenizer": (
        lambda c: KNNClassifierPipeline(model=c.model, datastore=c.store()), ValueError, "needs a tokenizer",
    ),
    "a datastore of several labels for a classifier of one": (
        lambda c: c.pipe(
            KNNDatastore(c.store().keys, [["river"]] * 48, NAMES, probe=make_embedder(c.model, c.tokenizer).probe())
        ),
        ValueError, "several labels each",
    ),
    # training
    "a dictionary of data sets": (lambda c: c.train({"a": c.examples}), ValueError, "are a dict"),
    "an encoder instead of a classifier": (
        lambda c: c.train(model=BertModel(c.config)), ValueError, "KNNClassifier.from_encoder",
    ),
    "training without a tokenizer": (lambda c: c.train(tokenizer=False), ValueError, "processing_class"),
    "training without labels in the model": (
        lambda c: c.train(model=KNNClassifier.around(BertModel(c.config), 0)), ValueError, "no classification head",
    ),
    "labels in another order": (
        lambda c: c.train(c.labeled([0, 1], NAMES[::-1])), ValueError, r"\['engine', 'river'\].*id2label",
    ),
    "labels that are bare numbers": (
        lambda c: c.train(Dataset.from_dict({"text": ["a"], "label": [0]})), ValueError, "ClassLabel",
    ),
    "a column of another name": (
        lambda c: c.train(c.examples.rename_column("text", "body")), ValueError, "no column 'text'",
    ),
    "no examples": (lambda c: c.train(c.examples.select([])), ValueError, "no training examples"),
    "several labels for a model of one": (
        lambda c: c.train(c.labeled([[0]], label=lambda names: List(ClassLabel(names=names)))),
        ValueError, "multi_label_classification",
    ),
    "an untrained retrieval head": (lambda c: c.train(triplet_weight=0.0), ValueError, "decouple=False"),
    "no classifier loss": (lambda c: c.train(triplet_weight=1.0), ValueError, "triplet_weight must be .* got 1.0"),
    "a negative margin": (lambda c: c.train(triplet_margin=-1.0), ValueError, "got -1.0"),
    "an empty text in a datastore": (
        lambda c: KNNDatastore.build(c.model, c.tokenizer, c.labeled([0], texts=[""])), ValueError, "Text 0 is empty",
    ),
}  # fmt: skip


@pytest.fixture
def case(tiny_config, tokenizer, texts, tmp_path):
    return Case(tiny_config, tokenizer, list(texts), tmp_path)


@pytest.mark.parametrize("action, error, message", ERRORS.values(), ids=ERRORS)
def test_errors_name_the_value_and_the_next_step(action, error, message, case):
    with pytest.raises(error, match=message):
        action(case)


def test_what_a_datastore_cannot_be_shows_before_texts_are_embedded(case, monkeypatch):
    add_rows = "docsplit_hf.classifier.embed_examples.add_rows"
    monkeypatch.setattr(add_rows, lambda *_, **__: pytest.fail("texts were embedded"))
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float16', got 'fp16'"):
        KNNDatastore.build(case.model, case.tokenizer, case.examples, dtype="fp16")


def test_more_neighbors_than_examples_are_all_of_them(case):
    answer = case.pipe()({"text": "a river"}, k=10_000, return_neighbors=10_000)
    assert len(answer["neighbors"]) == len(case.texts)


def test_an_empty_text_to_classify_is_classified_and_logged(case, caplog):
    assert len(case.pipe()(["", "a river"])) == 2
    assert "1 of 2 texts are empty" in caplog.text


def test_a_text_of_a_megabyte_is_cut_and_logged(case, caplog):
    assert case.pipe()("river " * 170_000)[0]["label"] in NAMES
    assert "1 of 1 texts are longer than 64 tokens" in caplog.text
