"""From a subject and the settings of a protocol to the metrics of one repeat."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from ..systems.features import is_sparse
from .attention import attention_by_part_of_speech
from .citation import cosine_threshold_score, pair_head_score
from .decoupled import decoupled_score
from .few_shot import sample_per_class
from .half_documents import half_retrieval_score
from .neighbors import knn_score
from .parts_of_speech import load_spacy
from .probe import fit_and_score
from .redundancy import by_length, nouns_and_verbs_ratio, sentence_similarity
from .subject import Subject, document_encoder, encoding_options, language_of

Settings = Mapping[str, Any]


def _full(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    train, test = subject.classification_features
    task = subject.task
    return fit_and_score(settings["probe"], train, task.train_labels, test, task.test_labels, seed, task.train_inputs)


def _few_shot(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    train, test = subject.classification_features
    task = subject.task
    rows = sample_per_class(task.train_labels, settings["shots"], seed, task.label_names)
    inputs = [task.train_inputs[row] for row in rows]
    examples = train[rows], task.train_labels[rows], test, task.test_labels
    return fit_and_score(settings["probe"], *examples, seed, inputs)


def _knn(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    train, test = subject.classification_features
    task = subject.task
    return knn_score(train, task.train_labels, test, task.test_labels, seed, task.train_inputs)


def _decoupled(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    encoder = document_encoder(subject.system)
    bf16 = encoding_options(subject.system).get("bf16", False)
    options = {"max_length": encoder.max_length, "pooling": encoder.pooling, "bf16": bf16}
    with tempfile.TemporaryDirectory() as folder:  # its checkpoints are as large as the encoder, and nobody's result
        metrics = decoupled_score(subject.checkpoint, subject.task, folder, seed, **options)
    mixed = {name: metrics.pop(f"mixture_{name}") for name in ("accuracy", "macro_f1")}
    return mixed | metrics


def _citation(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    train, test = subject.citation_features
    metrics = {"cosine_accuracy": cosine_threshold_score(*train, *test, seed)["accuracy"]}
    if is_sparse(train.first):  # as wide as a vocabulary: the head would have tens of millions of weights
        return metrics
    return {"accuracy": pair_head_score(*train, *test, seed)["accuracy"]} | metrics


def _half_documents(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    return half_retrieval_score(*subject.half_features(seed))


def _nouns_and_verbs(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    return by_length(*nouns_and_verbs_ratio(subject.task.corpus().texts, subject.system.nlp))


def _redundancy(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    return sentence_similarity(subject.system, subject.task.corpus().texts, seed, language_of(subject.task))


def _attention(subject: Subject, settings: Settings, seed: int) -> dict[str, float]:
    encoder, nlp = document_encoder(subject.system), load_spacy(settings["spacy_pipeline"])
    return attention_by_part_of_speech(encoder, subject.task.corpus().texts, nlp, settings["max_length"])


MEASURES: dict[str, Callable[[Subject, Settings, int], dict[str, float]]] = {
    "full": _full,
    "few_shot": _few_shot,
    "knn": _knn,
    "decoupled": _decoupled,
    "citation": _citation,
    "half_documents": _half_documents,
    "nouns_and_verbs": _nouns_and_verbs,
    "redundancy": _redundancy,
    "attention": _attention,
}
