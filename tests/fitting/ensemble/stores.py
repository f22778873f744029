"""Datastores with texts and embeddings that depend on the label."""

import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.fitting.experts.expert import Features, TrainingData
from docsplit_hf.fitting.experts.vector_experts import DEFAULT_EXAMPLE_WEIGHT

NAMES = ["fruit", "mineral", "predator"]
OWN = [["apple", "pear", "juice", "ripe"], ["iron", "stone", "mine", "ore"], ["fox", "wolf", "den", "tail"]]
COMMON = "the a of in with and for one two many".split()
DIMENSION = 16
ABOUT_CONTENT = [
    "classifier",
    "naive_bayes",
    "neighbors",
    "topics",
    "word_regression",
]  # experts; not how texts are written


def make_texts(labels, seed=0):
    """Texts of 12 words, four of them typical of the label."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.permutation([*rng.choice(OWN[label], 4), *rng.choice(COMMON, 8)])) for label in labels]


def make_keys(labels, seed=0, noise=1.0):
    """Embeddings around a center for each label."""
    centers = 2 * np.random.default_rng(99).standard_normal((3, DIMENSION))
    noises = noise * np.random.default_rng(seed).standard_normal((len(labels), DIMENSION))
    return (centers[np.asarray(labels)] + noises).astype(np.float32)


def make_store(examples=12, documents=60, texts=True, pairs=False, multi_label=False, seed=0):
    """A datastore of three labels, and documents without labels."""
    numbers = np.arange(examples) % 3
    words = make_texts(numbers, seed) if texts else None
    seconds = make_texts(numbers, seed + 7) if pairs else None
    given = numbers
    if multi_label:
        given = [[int(n), 0] if i % 4 == 3 and n else [int(n)] for i, n in enumerate(numbers)]
    store = KNNDatastore(make_keys(numbers, seed), given, NAMES, words, seconds)
    if documents:
        unknown = np.random.default_rng(seed + 1).integers(0, 3, documents)
        words = make_texts(unknown, seed + 2) if texts else None
        seconds = make_texts(unknown, seed + 8) if pairs else None
        store.add_documents(make_keys(unknown, seed + 3), words, seconds)
    return store


def misleading_store(noise=2.0, examples=60):
    """As many examples of each label, and 300 documents that are all fruit."""
    labels = np.arange(examples) % 3
    of_documents = np.zeros(300, int)
    store = KNNDatastore(make_keys(labels, 1, noise), labels, NAMES, make_texts(labels, 1))
    store.add_documents(make_keys(of_documents, 2, noise), make_texts(of_documents, 5))
    return store


def fitted_store(*args, experts=None, **options):
    """A datastore with what was fitted on it."""
    store = make_store(*args, **options)
    store.fitted = fit_experts(Problem(store.snapshot, experts), show_progress=False).to_state()
    return store


def make_queries(count=9, seed=5):
    """Labels, embeddings and texts that are in no datastore."""
    labels = np.arange(count) % 3
    return labels, make_keys(labels, seed), make_texts(labels, seed + 1)


def score(store, logits=None, **options):
    """Score the queries by the experts of a datastore."""
    _, keys, texts = make_queries(**options)
    return score_texts(prepare_experts(store.snapshot), keys, texts, logits)


def training_data(corpus, rows, targets, is_text=None, **others):
    """Training data of examples with one label."""
    return TrainingData(
        corpus=corpus,
        experts=[],
        rows=rows,
        compared_rows=rows,
        targets=targets,
        is_text=np.ones(len(rows), bool) if is_text is None else is_text,
        multi_label=False,
        has_head=False,
        example_weight=DEFAULT_EXAMPLE_WEIGHT,
        proportions=None,
        **{
            "compared": None,
            "misleading_versions": 0.0,
            "names": None,
            "teacher": None,
            **others,
        },
        soft_labels=np.zeros((len(corpus.ids), targets.shape[1]), np.float32),
        centers=np.zeros((targets.shape[1], 0), np.float32),
    )


def features_of(words=None, neighbor_label_proportions=None, multi_label=False, style=None):
    """Features of texts with all others missing."""
    return Features(
        vectors=None,
        whitened=None,
        words=words,
        style=style,
        neighbor_label_proportions=neighbor_label_proportions,
        head_logits=None,
        multi_label=multi_label,
    )
