"""Records written by hand, in the format of a run."""

import itertools

LENGTH = {"max_length": 512}
TAGGER = {"tagger": "en_core_web_sm", "tagger_version": "spaCy en_core_web_sm 3.8.0"}


def repeats_of(system, task, protocol, settings, metrics, repeats):
    """Records of one measurement, with metrics that rise from seed to seed."""
    return [
        {
            "system": system,
            "system_fingerprint": system,
            "task": task,
            "task_fingerprint": task,
            "protocol": protocol,
            "settings": settings,
            "seed": seed,
            "metrics": {name: value + 0.01 * seed for name, value in metrics.items()},
            "seconds": 1.0,
            "run": 0,
        }
        for seed in range(repeats)
    ]


def records_of_system(system, task, base):
    """Records of a system on a task by all protocols of classification and of texts; ``base`` is its accuracy."""
    both = {"accuracy": base, "macro_f1": base - 0.05}
    records = repeats_of(system, task, "full", {"probe": "mlp"} | LENGTH, both, repeats=3)
    for shots in (1, 5, 10):
        settings = {"shots": shots, "probe": "logistic"} | LENGTH
        metrics = {"accuracy": base * shots / 12, "macro_f1": base * shots / 13}
        records += repeats_of(system, task, "few_shot", settings, metrics, repeats=4)
    records += repeats_of(system, task, "knn", LENGTH, both, repeats=3)
    for number, variant in enumerate(("base", "triplet_loss", "decoupled")):
        settings = {"variant": variant, "retrieval_pooling": "own", "neighbors": "calibrated"} | LENGTH
        settings["arguments"] = {"learning_rate": 1e-4}
        metrics = {
            "classifier_accuracy": base,
            "knn_accuracy": base - 0.1,
            "accuracy": base + 0.01 * (number - 1),
        }
        records += repeats_of(system, task, "decoupled", settings, metrics, repeats=3)
    retrieval = {"recall@1": base, "recall@10": base, "mrr": base}
    records += repeats_of(system, task, "half_documents", LENGTH, retrieval, repeats=3)
    similarity = {"within": 0.3, "within_interval": 0.02, "between": 0.1}
    records += repeats_of(system, task, "redundancy", LENGTH, similarity, repeats=3)
    attention = {"noun": 0.004, "verb": 0.003, "adjective": 0.0035, "other": 0.002, "noun_interval": 0.001}
    records += repeats_of(system, task, "attention", TAGGER | LENGTH, attention, repeats=1)
    return records


def make_records(systems, tasks):
    """Records of systems on tasks by all protocols."""
    records = []
    for (number, system), task in itertools.product(enumerate(systems), tasks):
        records += records_of_system(system, task, base=0.5 + 0.03 * number)
    for number, system in enumerate(systems):
        metrics = {"accuracy": 0.6 + 0.02 * number, "cosine_accuracy": 0.55}
        records += repeats_of(system, "AAN", "citation", LENGTH, metrics, repeats=3)
    ratios = {"0-50": 1.1, "51-100": 1.2, "51-100_interval": 0.05, "all": 1.3}
    for task in tasks:
        records += repeats_of("spaCy en_core_web_sm", task, "nouns_and_verbs", TAGGER, ratios, repeats=1)
    return records
