"""Five labeled texts of each class: what unlabeled documents, the ensemble and pretraining gain.


The texts are the documentation of seven installed packages, and the class is the package. Run it after
``examples/run_pretrain.py --dataset_name documentation``, or by ``make pretrain``:

    python examples/few_labels.py --model_name_or_path output/pretrain
"""

import argparse
import logging
from collections.abc import Iterator, Sequence

import datasets
import numpy as np
import pandas as pd
import transformers
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline

import docsplit_hf

TOKENS = 128  # of each text are read, as in the pretraining
TEST_TEXTS = 150  # of each draw


def main() -> None:
    """Train four classifiers on the same draws of labeled texts, and print the mean macro F1 of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model_name_or_path", default="output/pretrain", help="the encoder after pretraining")
    parser.add_argument("--labels", type=int, default=5, help="labeled texts of each class")
    parser.add_argument("--documents", type=int, default=500, help="documents without labels")
    parser.add_argument("--draws", type=int, default=3, choices=(1, 2, 3), help="draws of labeled and of test texts")
    parser.add_argument("--seed", type=int, default=0, help="which texts are drawn")
    arguments = parser.parse_args()

    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)  # each encoder reports how many tokens are cut off
    splits = docsplit_hf.load_package_documentation()
    train = with_packages(splits["train"])
    test = with_packages(splits["test"])
    documents = train.sample(arguments.documents, random_state=arguments.seed)
    pool = train.drop(documents.index)
    draws = [
        (
            pool.groupby("package").sample(arguments.labels, random_state=arguments.seed + draw),
            test[draw * TEST_TEXTS : (draw + 1) * TEST_TEXTS],
        )
        for draw in range(arguments.draws)
    ]
    encoder = docsplit_hf.DocumentEncoder.from_pretrained(docsplit_hf.default_checkpoint(), max_length=TOKENS)
    systems = {
        "word counts": by_words(draws),
        "linear classifier on embeddings": by_embeddings(draws, encoder),
        f"docsplit_hf, with {len(documents)} documents without labels": by_fit(
            draws, documents, str(docsplit_hf.default_checkpoint())
        ),
        "docsplit_hf, with the pretrained encoder": by_fit(draws, documents, arguments.model_name_or_path),
    }
    print(f"Macro F1 (%), {arguments.labels} labeled texts of each of {test['package'].nunique()} classes, ", end="")
    print(f"mean of {arguments.draws} draws:")
    for name, answers in systems.items():
        scores = [
            f1_score(tests["package"], predicted, average="macro")
            for (_, tests), predicted in zip(draws, answers, strict=True)
        ]
        print(f"  {name:50} {100 * np.mean(scores):5.1f}", flush=True)


Draws = Sequence[tuple[pd.DataFrame, pd.DataFrame]]


def with_packages(split: datasets.Dataset) -> pd.DataFrame:
    """Return the texts with the names of their packages."""
    frame = split.to_pandas()
    frame["package"] = [split.features["label"].int2str(int(label)) for label in frame["label"]]
    return frame


def by_words(draws: Draws) -> Iterator[Sequence[str]]:
    """Predict by word counts: TF-IDF and logistic regression."""
    for labeled, tests in draws:
        words = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=1000))
        yield words.fit(labeled["text"], labeled["package"]).predict(tests["text"])


def by_embeddings(draws: Draws, encoder: docsplit_hf.DocumentEncoder) -> Iterator[Sequence[str]]:
    """Predict by logistic regression on embeddings."""
    for labeled, tests in draws:
        embeddings = encoder.encode(list(labeled["text"]), show_progress=False)
        probe = LogisticRegression(C=10, max_iter=1000).fit(embeddings, labeled["package"])
        yield probe.predict(encoder.encode(list(tests["text"]), show_progress=False))


def by_fit(draws: Draws, documents: pd.DataFrame, checkpoint: str) -> Iterator[Sequence[str]]:
    """Predict by the ensemble of ``fit()``; the documents are embedded once."""
    pipe = transformers.pipeline("docsplit-knn", model=checkpoint, max_length=TOKENS)
    pipe.add_documents(documents["text"])
    ids: list[str] = []
    for labeled, tests in draws:
        if ids:
            pipe.remove_examples(ids)
        ids = pipe.add_examples(labeled["text"], labeled["package"])
        pipe.fit(show_progress=False)
        yield [answer["label"] for answer in pipe(list(tests["text"]))]


if __name__ == "__main__":
    main()
