"""Tasks with long documents made from Wikipedia articles, which are labeled by their section titles."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

logger = logging.getLogger(__name__)

TITLED = "WikipediaTitled"
PAIRED = "WikipediaPaired"
INVERTED = "WikipediaInverted"
WIKIPEDIA_TASKS = (TITLED, PAIRED, INVERTED)
SECTION_TITLES = {
    "education": "academics, accreditation, admissions, campus, curriculum, extracurricular activities, student life",
    "film and television": "box office, cast, casting, episodes, filming, home media, plot, storylines, synopsis",
    "medicine": "diagnosis, epidemiology, pathophysiology, prevention, prognosis, signs and symptoms, treatment",
    "music": "albums, chart performance, cover versions, discography, lyrics, music career, music video, musical "
    "career, musical style, singles, songs, track listing",
    "places": "climate, demographics, demography, geography, landmarks, tourism",
    "politics": "advertising and visits, candidates, electors, general election, legislative segments, political "
    "career, polling",
    "species": "behavior, behaviour, diet, distribution and habitat, habitat, life cycle, reproduction, taxonomy",
    "sport": "amateur career, career statistics, club career, coaching career, football career, international career, "
    "national team, offseason, playing career, playoffs, racing career, regular season, rugby career",
    "warfare": "battle, casualties, operational history, opposing forces, order of battle, prelude, service history",
}
LABEL_OF = {title: label for label, titles in SECTION_TITLES.items() for title in titles.split(", ")}
TITLE_WORDS = 6  # the most words of a section title
FEWEST_WORDS = 250  # of a labeled article
MOST_WORDS = 6_000
FEWEST_WORDS_UNLABELED = 500  # more than an encoder reads of a document's beginning
MOST_WORDS_UNLABELED = 1_000
LENGTHS = (500, 1_000, 2_000, 4_000)  # words: bounds of the lengths from which equally many articles are drawn
PER_LABEL_AND_LENGTH = 20


def wikipedia_splits(articles: Sequence[str], name: str, seed: int) -> DatasetDict:
    """Make ``train`` and ``test``, each with half of the articles of each label and length, as ``text`` and ``label``.

    An article has a label if all of its section titles that are in ``SECTION_TITLES`` belong to this label. These
    titles are removed from the text. ``"WikipediaTitled"`` is the article. ``"WikipediaInverted"`` has the sections
    under the label's titles last: first come the other sections, then the part before the first section title, then
    these sections. ``"WikipediaPaired"`` has an unlabeled article in front of the labeled one.

    Up to 20 articles of each label are drawn from each of the ranges between 250, 500, 1,000, 2,000, 4,000 and 6,000
    words, by ``seed``; they are the same in all three tasks. Titles are lines of at most 6 words with any marks:
    ``"Plot."``, as WikiExtractor writes them, ``"== Plot =="``, ``"Plot"``.
    """
    groups = defaultdict(list)
    unlabeled = []
    several = 0
    for number, article in enumerate(articles):
        labels = {LABEL_OF[title] for title in map(_title, article.split("\n")) if title in LABEL_OF}
        words = len(article.split())
        several += len(labels) > 1
        if not labels and FEWEST_WORDS_UNLABELED <= words <= MOST_WORDS_UNLABELED:
            unlabeled.append(number)
        elif len(labels) == 1 and FEWEST_WORDS <= words <= MOST_WORDS and len(_sections(article)) > 1:
            groups[min(labels), int(np.searchsorted(LENGTHS, words, side="right"))].append(number)
    rng = np.random.default_rng(seed)
    unlabeled = rng.permutation(np.array(unlabeled, dtype=np.int64)).tolist()
    rows: dict[str, list[dict[str, str]]] = {"train": [], "test": []}
    for label, length in sorted(groups):
        drawn = rng.permutation(groups[label, length])[:PER_LABEL_AND_LENGTH]
        for place, number in enumerate(drawn):
            sections = _sections(articles[number])
            if name == INVERTED:
                sections = sorted([*sections[1:], sections[0]], key=lambda section: _title(section[0]) in LABEL_OF)
            text = "\n".join(line for section in sections for line in section if _title(line) not in LABEL_OF)
            if name == PAIRED:
                if not unlabeled:
                    raise ValueError(f"There are too few articles of no label to stand before the others: {name}.")
                text = f"{articles[unlabeled.pop()]}\n{text}"
            rows["train" if place % 2 == 0 else "test"].append({"text": text, "label": label})
    found = Counter(row["label"] for row in rows["test"])
    if len(found) < 2:
        raise ValueError(
            f"{name}: of {len(articles)} articles, those of {len(found)} labels can be used, which are told by lines "
            "such as 'Plot.': give articles with their section titles, each on a line of its own."
        )
    logger.info(f"{name}: {several} of {len(articles)} articles have section titles of several labels: left out.")
    features = Features({"text": Value("string"), "label": ClassLabel(names=sorted(found))})
    return DatasetDict({split: Dataset.from_list(part, features=features) for split, part in rows.items()})


def _title(line: str) -> str:
    return line.strip(" .=").casefold()


def _sections(article: str) -> list[list[str]]:
    """The lines of the part before the first section title, and of each section including its title."""
    sections: list[list[str]] = [[]]
    for line in filter(str.strip, article.split("\n")):
        if sections[0] and len(line.split()) <= TITLE_WORDS:
            sections.append([])
        sections[-1].append(line)
    return sections
