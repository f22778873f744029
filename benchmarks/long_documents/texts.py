"""What is trained on and what is measured on: long articles, long posts, papers that cite each other."""

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from docsplit_hf import segment_documents
from experiments.tasks.citation_pairs import read_citation_pairs
from experiments.tasks.load_paper_task import load_paper_task

LONG = {"articles": 1000, "posts": 600}  # words
# The kind of an article by the titles of its sections, which are then taken out of it.
KINDS = {
    "person": ("Early life.", "Personal life.", "Biography."),
    "story": ("Plot.", "Plot summary.", "Synopsis."),
    "place": ("Geography.", "Demographics.", "Climate."),
    "event": ("Aftermath.",),
    "game": ("Gameplay.",),
}
TITLE_WORDS = 4  # a line of no more, with a full stop, is the title of a section


class Labeled(NamedTuple):
    """Segmented documents and their labels, ``(N,)``."""

    documents: Dataset
    labels: np.ndarray


class Pairs(NamedTuple):
    """Segmented papers, and of pairs of them, rows ``(P, 2)``, whether one cites the other and whether it is a test."""

    papers: Dataset
    rows: np.ndarray
    cites: np.ndarray
    is_test: np.ndarray


class Texts(NamedTuple):
    """All of it, as one tokenizer has it."""

    training: Dataset
    held_out: Dataset
    few_shot: dict[str, Labeled]
    citation: Pairs


def load_texts(
    corpus: str,
    posts: str,
    papers: str,
    tokenizer: PreTrainedTokenizerBase,
    most_articles: int,
    per_class: int,
    most_papers: int,
) -> Texts:
    """Draw them, with the same seed each time. Articles of the few-shot task are held out from training."""
    articles = long_articles(corpus)
    order = np.random.default_rng(0).permutation(len(articles))
    kind_of = {int(i): kind for i in order if (kind := kind_of_article(articles[i]))}
    chosen = [i for kind in KINDS for i in [i for i in kind_of if kind_of[i] == kind][:per_class]]
    held_out = set(chosen)
    training = [articles[i] for i in order if int(i) not in held_out][:most_articles]
    return Texts(
        segment(training, tokenizer),
        segment([articles[i] for i in chosen], tokenizer),
        {
            "kinds of articles": Labeled(
                segment([without_titles(articles[i]) for i in chosen], tokenizer),
                np.array([list(KINDS).index(kind_of[i]) for i in chosen]),
            ),
            "20News": load_posts(posts, tokenizer, per_class),
        },
        load_pairs(papers, tokenizer, most_papers),
    )


def segment(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> Dataset:
    return segment_documents(Dataset.from_dict({"text": texts}), tokenizer, single_sentence="dropout_pair")


def long_articles(corpus: str) -> list[str]:
    opened = gzip.open if corpus.endswith(".gz") else open
    with opened(corpus, "rt", encoding="utf-8") as lines:
        texts = (json.loads(line)["text"] for line in lines)
        return [text for text in texts if len(text.split()) >= LONG["articles"]]


def is_title(line: str) -> bool:
    return line.endswith(".") and len(line.split()) <= TITLE_WORDS


def kind_of_article(text: str) -> str | None:
    """The kind, if the titles are of one kind only."""
    titles = {line for line in text.split("\n") if is_title(line)}
    kinds = [kind for kind, known in KINDS.items() if titles & set(known)]
    return kinds[0] if len(kinds) == 1 else None


def without_titles(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not is_title(line))


def load_posts(folder: str, tokenizer: PreTrainedTokenizerBase, per_class: int) -> Labeled:
    """Long posts of 20 Newsgroups, of the groups that have enough of them."""
    task = load_paper_task("20News", Path(folder))
    texts, labels = [*task.train_texts, *task.test_texts], np.concatenate([task.train_labels, task.test_labels])
    is_long = np.array([len(text.split()) > LONG["posts"] for text in texts])
    order = np.random.default_rng(0).permutation(len(texts))
    of_class = [[int(i) for i in order if is_long[i] and labels[i] == label] for label in np.unique(labels)]
    rows = [i for numbers in of_class if len(numbers) >= 40 for i in numbers[:per_class]]
    return Labeled(segment([texts[i] for i in rows], tokenizer), labels[rows])


def load_pairs(folder: str, tokenizer: PreTrainedTokenizerBase, most_papers: int) -> Pairs:
    """The pairs among so many papers, drawn at random."""
    task = read_citation_pairs(Path(folder), "AAN")
    names = sorted({key for *ids, _ in [*task.train, *task.test] for key in ids})
    chosen = [names[i] for i in np.random.default_rng(0).permutation(len(names))[:most_papers]]
    place = {name: i for i, name in enumerate(chosen)}
    pairs = [(*pair, split) for split, of_split in enumerate((task.train, task.test)) for pair in of_split]
    kept = [pair for pair in pairs if pair[0] in place and pair[1] in place]
    rows = np.array([(place[first], place[second]) for first, second, _, _ in kept])
    cites, is_test = (np.array(column) for column in list(zip(*kept, strict=True))[2:])
    return Pairs(segment([task.documents[name] for name in chosen], tokenizer), rows, cites, is_test.astype(bool))
