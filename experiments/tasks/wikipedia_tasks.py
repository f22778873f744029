"""Tasks about long documents, made of Wikipedia's articles on the spot: an article's section titles are its label."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

logger = logging.getLogger(__name__)

WIKIPEDIA_TASKS = TITLED, PAIRED, INVERTED = "WikipediaTitled", "WikipediaPaired", "WikipediaInverted"
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
TITLE_WORDS = 6  # at most, in a line that is a section's title
FEWEST_WORDS, MOST_WORDS = 250, 6_000  # of an article with a label
FIRST_OF_PAIR = 500, 1_000  # words of the article without a label: more than what is read of a beginning
LENGTHS = (500, 1_000, 2_000, 4_000)  # words, between which as many articles are drawn of each label
PER_LABEL_AND_LENGTH = 20


def wikipedia_splits(articles: Sequence[str], name: str, seed: int) -> DatasetDict:
    """``train`` and ``test``, half of the articles of each label and length each, with ``text`` and ``label``.

    An article has a label if all of its section titles that are in ``SECTION_TITLES`` are of one label. They are taken
    out of the text. ``"WikipediaTitled"`` is the article. ``"WikipediaInverted"`` has what tells the label at its end:
    first come the other sections, then the beginning, which is all before the first section title, then the sections
    under the titles of the label. In ``"WikipediaPaired"`` another article, with none of the titles, stands before it.

    Of each label up to 20 articles are drawn between any two of 250, 500, 1,000, 2,000, 4,000 and 6,000 words, by
    ``seed``; the three tasks have the same. Titles are lines of at most 6 words, whatever marks them: ``"Plot."``, as
    WikiExtractor writes them, ``"== Plot =="``, ``"Plot"``.
    """
    groups, others, several = defaultdict(list), [], 0
    for number, article in enumerate(articles):
        labels = {LABEL_OF[title] for title in map(_title, article.split("\n")) if title in LABEL_OF}
        words = len(article.split())
        several += len(labels) > 1
        if not labels and FIRST_OF_PAIR[0] <= words <= FIRST_OF_PAIR[1]:
            others.append(number)
        elif len(labels) == 1 and FEWEST_WORDS <= words <= MOST_WORDS and len(_sections(article)) > 1:
            groups[min(labels), int(np.searchsorted(LENGTHS, words, side="right"))].append(number)
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.array(others, dtype=np.int64)).tolist()
    rows: dict[str, list[dict[str, str]]] = {"train": [], "test": []}
    for label, length in sorted(groups):
        drawn = rng.permutation(groups[label, length])[:PER_LABEL_AND_LENGTH]
        for place, number in enumerate(drawn):
            sections = _sections(articles[number])
            if name == INVERTED:
                sections = sorted([*sections[1:], sections[0]], key=lambda section: _title(section[0]) in LABEL_OF)
            text = "\n".join(line for section in sections for line in section if _title(line) not in LABEL_OF)
            if name == PAIRED:
                if not others:
                    raise ValueError(f"There are too few articles of no label to stand before the others: {name}.")
                text = f"{articles[others.pop()]}\n{text}"
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
    """The lines of what stands before the first section title, and of each section, which begins with its title."""
    sections: list[list[str]] = [[]]
    for line in filter(str.strip, article.split("\n")):
        if sections[0] and len(line.split()) <= TITLE_WORDS:
            sections.append([])
        sections[-1].append(line)
    return sections
