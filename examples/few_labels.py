"""Five labels of each class: what pretraining, unlabeled documents and the ensemble gain over simpler classifiers.

The documents are the documentation of seven installed packages, and the class is the package. Run it after
``examples/run_pretrain.py --dataset_name documentation``, or by ``make pretrain``:

    python examples/few_labels.py --model_name_or_path output/pretrain
"""

import argparse
import logging

import datasets
import transformers
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline

import docsplit_hf

TOKENS = 128  # of each text are read, as in the pretraining
TEST_TEXTS = 250


def main() -> None:
    """Train four classifiers on the same labeled texts, and print the macro F1 of each on other texts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model_name_or_path", default="output/pretrain", help="the encoder after pretraining")
    parser.add_argument("--labels", type=int, default=5, help="labeled texts of each class")
    parser.add_argument("--documents", type=int, default=500, help="documents without labels")
    parser.add_argument("--seed", type=int, default=0, help="which texts are drawn")
    arguments = parser.parse_args()

    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)  # each encoder reports how many tokens are cut off
    splits = docsplit_hf.load_package_documentation()
    test = splits["test"].select(range(TEST_TEXTS))
    packages = splits["train"].features["label"].names
    train = splits["train"].to_pandas()
    train["package"] = [packages[label] for label in train["label"]]
    test_texts = list(test["text"])
    right = [packages[label] for label in test["label"]]
    labeled = train.groupby("package").sample(arguments.labels, random_state=arguments.seed)
    documents = train.drop(labeled.index).sample(arguments.documents, random_state=arguments.seed)

    def report(name: str, predicted: list[str]) -> None:
        print(f"  {name:58} {100 * f1_score(right, predicted, average='macro'):5.1f}", flush=True)

    print(f"Macro F1 on {len(right)} texts, with {arguments.labels} labeled texts of each of {len(packages)} packages:")
    words = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=1000))
    report("word counts", words.fit(labeled["text"], labeled["package"]).predict(test_texts))
    encoders = {"before": docsplit_hf.default_checkpoint(), "after": arguments.model_name_or_path}
    for when, checkpoint in encoders.items():
        encoder = docsplit_hf.DocumentEncoder.from_pretrained(checkpoint, max_length=TOKENS)
        probe = LogisticRegression(C=10, max_iter=1000)
        embeddings = encoder.encode(list(labeled["text"]), show_progress=False)
        probe.fit(embeddings, labeled["package"])
        predicted = probe.predict(encoder.encode(test_texts, show_progress=False))
        report(f"linear classifier on embeddings, {when} pretraining", predicted)
    pipe = transformers.pipeline("docsplit-knn", model=arguments.model_name_or_path)
    pipe.add_examples(labeled["text"], labeled["package"])
    pipe.add_documents(documents["text"])
    pipe.fit(show_progress=False)
    answers = pipe(test_texts)
    report(f"docsplit_hf, with {len(documents)} unlabeled documents", [answer["label"] for answer in answers])


if __name__ == "__main__":
    main()
