"""The papers' sections of results.md, with the papers' own numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..protocols.decoupled import PAPER_K, PAPER_TEMPERATURE
from ..protocols.masked_nouns import MASKED
from . import markdown_report
from .decoupled_tables import SHOWN_AS_ROWS, neighbors_sweep, nine_rows, retrieval_vectors
from .length_tables import SHOWN_IN_TITLES, length_tables, reading_table
from .markdown_report import MISSING, NOISE, WORD_COUNTS, WORDS, Row, Section
from .paper_results import (
    CITATION,
    DECOUPLED,
    FEW_SHOT,
    FULL,
    REDUNDANCY,
    RETRIEVAL_VECTORS,
    SENTENCE_SIMILARITY,
    paper_task,
)

CHOICES = (
    f"k, T and lambda: calibrated on held-out examples; fixed, k = {PAPER_K}, T = {PAPER_TEMPERATURE:g} and lambda by "
    "the paper's table 3 or --knn_weight; or oracle, the lambda of the best result on the test set, as the paper chose "
    "it. In % of each task's metric."
)
PASSAGE_MEASURES = (
    "average",
    "best_pairs",
    "soft_maximum",
    "average_centered",
    "best_pairs_centered",
    "soft_maximum_centered",
    "words",
    "passages_and_words",
)
# Documents, classes, and mean, median and maximum of the words of a document.
PAPER_DATA = {
    "FakeNews": (8_558_957, 15, 467, 299, 33_936),
    "20News": (18_846, 20, 258, 153, 11_554),
    "arXiv": (2_162_833, 38, 138, 131, 925),
    "NYT": (13_081, 5, 650, 683, 5_503),
    "BBCNews": (2_225, 5, 133, 130, 445),
}
PAPER_NOTE = "In italics the papers' data (DocSplit, section 4.2; medians from SimDE and SimLTE, table 1)."
NEWSGROUPS_NOTE = (
    "20News is without headers, signatures and quotations; 20News (body) without headers; 20News (raw) as it was sent."
)
FULL_SECTION, FEW_SHOT_SECTION, HALF_DOCUMENTS_SECTION = markdown_report.SECTIONS

SECTIONS = (
    replace(FULL_SECTION, printed=FULL),
    replace(FEW_SHOT_SECTION, printed=FEW_SHOT),
    Section(
        "knn",
        "Nearest neighbors",
        "Frozen features; the labels of the nearest training texts vote. Accuracy and macro F1 in %.",
        ("accuracy", "macro_f1"),
    ),
    Section(
        "length",
        "Accuracy by length",
        "Test documents by their number of words, in brackets how many there are. Frozen features with a probe "
        f"(logistic regression; {WORD_COUNTS}) or nearest neighbors. Where documents have passages, the probe learns "
        "from their mean, and the passage of which it is surest decides; neighbors are near by their best matching "
        "passages, as in a datastore. Accuracy and macro F1 in %, what is gained against `first` in points. With all "
        "examples ± is half the 95 % confidence interval over the documents (jackknife).",
        layout=length_tables,
        in_table=SHOWN_IN_TITLES,
    ),
    Section(
        "length_read",
        "What is read",
        "Tokens that an encoder reads of a test document, special tokens included, and the share of the text that it "
        "reads, by the number of words. Word counts take no tokens.",
        layout=reading_table,
    ),
    Section(
        "decoupled",
        "Classification with neighbors: three systems by three ways to answer",
        "The encoder is fine-tuned with cross entropy (base), also with the triplet loss on the representation that is "
        "classified (TL), or on one of its own (TL + D). Each answers by its classifier, by its neighbors alone (KNN), "
        f"and by the two mixed. {CHOICES}",
        spread="std",
        printed=DECOUPLED,
        layout=nine_rows,
        in_table=SHOWN_AS_ROWS,
    ),
    Section(
        "retrieval_vectors",
        "Classification with neighbors: retrieval vectors",
        f"What neighbors are looked for with, of TL + D: the first token, the mean or the maximum of all. {CHOICES}",
        spread="std",
        printed=RETRIEVAL_VECTORS,
        layout=retrieval_vectors,
        in_table=SHOWN_AS_ROWS,
    ),
    Section(
        "neighbors_sweep",
        "Classification with neighbors: k and temperature",
        f"The neighbors of TL + D alone, on the test set: by k at T = {PAPER_TEMPERATURE:g}, by T at k = {PAPER_K}.",
        spread="std",
        layout=neighbors_sweep,
        in_table=SHOWN_AS_ROWS,
    ),
    Section(
        "citation",
        "Citation",
        "Whether one paper cites the other, from their two embeddings. Accuracy in %, of the head of the Long Range "
        "Arena trained on the pairs (not on word counts, which are too wide for it), and of a threshold on the cosine.",
        ("accuracy", "cosine_accuracy"),
        printed=CITATION,
        titles={"accuracy": "Acc", "cosine_accuracy": "Acc, cosine threshold"},
    ),
    Section(
        "passage_citation",
        "Citation by passages",
        "The same from all passages of both papers. Accuracy in % of a threshold on: the cosine of their mean passages "
        "(average), the mean of the three most similar pairs of passages (best pairs), a soft maximum over all pairs; "
        "each also with passages less their common mean (centered); and on TF-IDF (words). Of words and the centered "
        "soft maximum together, a logistic regression on the training pairs.",
        tuple(f"{name}_accuracy" for name in PASSAGE_MEASURES),
        by_system=False,
        titles={
            f"{name}_accuracy": name.replace("_centered", ", centered").replace("_", " ") for name in PASSAGE_MEASURES
        },
    ),
    HALF_DOCUMENTS_SECTION,
    Section(
        "nouns_and_verbs",
        "Redundancy: nouns and verbs",
        "R, the number of nouns and verbs over that of distinct ones, by the number of words in a text. spaCy tells "
        "them apart by lemmas, as in the papers, NLTK by stems.",
        REDUNDANCY.metrics,
        spread="documents",
        printed=REDUNDANCY,
        by_system=False,
        plain_digits=2,
    ),
    Section(
        "redundancy",
        "Redundancy: sentences",
        "Mean cosine similarity of two sentences of one document (within) and of two documents (between).",
        ("within", "between"),
        spread="documents",
        printed=SENTENCE_SIMILARITY,
        by_system=False,
        plain_digits=2,
    ),
    Section(
        "attention",
        "Attention by part of speech",
        "Mean attention weight from the first token to a word, in the last layer.",
        ("noun", "verb", "adjective", "other"),
        spread="documents",
        by_system=False,
        plain_digits=5,
    ),
    Section(
        "masked_nouns",
        "Nouns masked",
        "Few-shot macro F1 in %, {shots} examples per class, logistic regression: texts as they are, with a mask token "
        "in the place of their nouns, and of as many words that are neither noun, verb nor adjective. A text with more "
        "nouns than such words keeps some of its nouns.",
        tuple(f"{masked}_macro_f1" for masked in MASKED),
        spread="std",
        by_system=False,
        titles={f"{masked}_macro_f1": f"{masked} masked" for masked in MASKED},
    ),
)


def paper_data(tasks: Sequence[str]) -> tuple[Mapping[str, Row], list[str]]:
    """The papers' rows in the table of data sets, by our name of the task, and notes."""
    paper_names = {name: paper_task(name) for name in tasks}
    rows = {}
    for name, paper_name in paper_names.items():
        if paper_name in PAPER_DATA:
            numbers = [f"*{number:,}*" for number in PAPER_DATA[paper_name]]
            rows[name] = (f"*{paper_name}, paper*", MISSING, MISSING, MISSING, *numbers, MISSING, MISSING)
    notes = [WORDS]
    if rows:
        notes.append(PAPER_NOTE)
    notes.append(NOISE)
    if "20News" in paper_names.values():
        notes.append(NEWSGROUPS_NOTE)
    return rows, notes


results_markdown = partial(markdown_report.results_markdown, sections=SECTIONS, data=paper_data)
main_table = partial(markdown_report.main_table, sections=SECTIONS)
