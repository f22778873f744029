"""Records as a run leaves them, written by hand."""

import itertools


def make_records(systems, tasks):
    records = []

    def add(system, task, protocol, settings, repeats, **metrics):
        for seed in range(repeats):
            moved = {name: value + 0.01 * seed for name, value in metrics.items()}
            records.append(
                {"system": system, "system_fingerprint": system, "task": task, "task_fingerprint": task, "seed": seed}
                | {"protocol": protocol, "settings": settings, "metrics": moved, "seconds": 1.0, "run": 0}
            )

    length = {"max_length": 512}
    tagger = {"tagger": "en_core_web_sm", "tagger_version": "spaCy en_core_web_sm 3.8.0"}
    for (number, system), task in itertools.product(enumerate(systems), tasks):
        base = 0.5 + 0.03 * number
        both = {"accuracy": base, "macro_f1": base - 0.05}
        add(system, task, "full", {"probe": "mlp"} | length, 3, **both)
        for count in (1, 5, 10):
            metrics = {"accuracy": base * count / 12, "macro_f1": base * count / 13}
            add(system, task, "few_shot", {"shots": count, "probe": "logistic"} | length, 4, **metrics)
        add(system, task, "knn", length, 3, **both)
        for number, variant in enumerate(("base", "triplet_loss", "decoupled")):
            how = {"variant": variant, "retrieval_pooling": "own", "neighbors": "calibrated"} | length
            how["arguments"] = {"learning_rate": 1e-4}
            parts = {"classifier_accuracy": base, "knn_accuracy": base - 0.1}
            add(system, task, "decoupled", how, 3, **parts, accuracy=base + 0.01 * (number - 1))
        add(system, task, "half_documents", length, 3, **{"recall@1": base, "recall@10": base, "mrr": base})
        add(system, task, "redundancy", length, 3, within=0.3, within_interval=0.02, between=0.1)
        attention = {"noun": 0.004, "verb": 0.003, "adjective": 0.0035, "other": 0.002, "noun_interval": 0.001}
        add(system, task, "attention", tagger | length, 1, **attention)
    for number, system in enumerate(systems):
        add(system, "AAN", "citation", length, 3, accuracy=0.6 + 0.02 * number, cosine_accuracy=0.55)
    ratios = {"0-50": 1.1, "51-100": 1.2, "51-100_interval": 0.05, "all": 1.3}
    for task in tasks:
        add("spaCy en_core_web_sm", task, "nouns_and_verbs", tagger, 1, **ratios)
    return records
