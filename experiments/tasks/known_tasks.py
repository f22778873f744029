"""Where the papers' data sets of long documents are, and how their rows become texts with labels."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from docsplit_hf.reading.package_documentation import DOCUMENTATION

from .paper_tasks import TASKS
from .wikipedia_tasks import WIKIPEDIA_TASKS

logger = logging.getLogger(__name__)

HEADER_SHARE = 0.9  # of the posts; in the release all of them have a header
# Variants of 20 Newsgroups, and the suffix of the task's name for each.
NEWSGROUPS = {"stripped": "", "body": " (body)", "raw": " (raw)"}


class TaskSource(NamedTuple):
    """Where a data set of the papers is (DocSplit, section 4.1); ``prepare`` makes the columns from one of its rows."""

    name: str
    dataset: str | None  # on the Hub
    text_column: str = "text"
    label_column: str = "label"
    prepare: Callable[[Mapping[str, Any]], dict[str, str]] | None = None
    note: str = ""  # how to get it if it is not on the Hub, or how what is there differs from the papers' data
    aliases: tuple[str, ...] = ()


def title_and_archive(row: Mapping[str, Any]) -> dict[str, str]:
    """Title and abstract of a row of arXiv's metadata, in one line each, and the archive as the label.

    The papers have 38 classes, which are the archives (``math``, ``hep-ph``, ...), not the 150 categories. Of several
    categories (``"math.CO cs.DM"``, or a list with such a string) the first, the primary one, decides.
    """
    categories = row["categories"]
    categories = (categories if isinstance(categories, str) else " ".join(categories)).split()
    if not categories:
        raise ValueError(f"The paper {row['title']!r} has no category: leave the row out.")
    text = "\n".join(" ".join(row[name].split()) for name in ("title", "abstract"))
    return {"text": text, "label": categories[0].partition(".")[0]}


def newsgroup_texts(posts: Sequence[str], kept: str) -> list[str]:
    """The texts of posts to newsgroups, by the rules of scikit-learn: ``"raw"``, ``"body"`` or ``"stripped"``.

    ``"body"`` has no header, and ``"stripped"`` no signature and no quotation either: otherwise a classifier reads off
    who writes to which group. ``fetch_20newsgroups(remove=...)`` gives the same, and ``SetFit/20_newsgroups`` on the
    Hub is stripped. From posts without headers the rules would take the first paragraph away, so they are applied only
    where nearly all posts have a header with a sender.
    """
    if kept not in NEWSGROUPS:
        raise ValueError(f"newsgroups must be one of {', '.join(NEWSGROUPS)}, got {kept!r}.")
    # Private in scikit-learn 1.9. The public fetch_20newsgroups(remove=...) strips only what it downloads itself.
    from sklearn.datasets import _twenty_newsgroups as rules

    with_header = sum(_has_header(post) for post in posts)
    if with_header < HEADER_SHARE * len(posts):
        if kept != "stripped":
            raise ValueError(
                f"newsgroups={kept!r} needs posts with their headers, which {with_header} of {len(posts)} have: give a "
                "folder with the posts as they were sent (on the Hub they are stripped), or take newsgroups='stripped'."
            )
        if with_header:
            logger.warning(
                f"{with_header} of {len(posts)} posts begin like one with a header. They are left as they are, since "
                "the others seem to be without headers already."
            )
        return list(posts)
    if kept == "raw":
        return list(posts)
    bodies = [rules.strip_newsgroup_header(post) for post in posts]
    if kept == "body":
        logger.info(f"Headers are taken out of {len(posts)} posts.")
        return bodies
    logger.info(f"Headers, signatures and quotations are taken out of {len(posts)} posts.")
    return [rules.strip_newsgroup_quoting(rules.strip_newsgroup_footer(body)) for body in bodies]


def _has_header(post: str) -> bool:
    header = post.lstrip("\n").partition("\n\n")[0]
    return any(line.startswith("From:") for line in header.split("\n"))


# Written without a network: of those on the Hub, the columns are as their cards say.
LONG_DOCUMENT_TASKS = {
    source.name: source
    for source in (
        TaskSource(
            "FakeNews",
            "andyP/fake_news_en_opensources",
            text_column="content",
            label_column="type",
            note="The Hub has a cleaned version with 5.9 million articles in 12 classes; the papers had 8.6 million in "
            "15. The corpus itself: github.com/several27/FakeNewsCorpus.",
        ),
        TaskSource("20News", "SetFit/20_newsgroups", label_column="label_text", aliases=("20Newsgroups",)),
        TaskSource(
            "arXiv",
            "gfissore/arxiv-abstracts-2021",
            prepare=title_and_archive,
            note="The Hub has the 2.0 million papers until 2021; the papers had 2.2 million.",
        ),
        TaskSource(
            "NYT",
            None,
            note="The New York Times Annotated Corpus is licensed by the Linguistic Data Consortium: get LDC2008T19, "
            "and give its articles as train.jsonl and test.jsonl with text and label.",
        ),
        TaskSource("BBCNews", "SetFit/bbc-news", label_column="label_text", aliases=("BBC",)),
        TaskSource(
            "AAN",
            None,
            note="Get lra_release.gz of the Long Range Arena (github.com/google-research/long-range-arena) and give "
            "its folder tsv_data; or a folder with docs.jsonl, train.jsonl and test.jsonl.",
        ),
    )
}


def known_name(name: str) -> str | None:
    """The name, as in the tables, of the task that a string means, however it is written; None for any other."""
    return None if "/" in name or "\\" in name else _known_names().get(_key(name))


def unknown_task(name: str) -> str:
    """The error message for an unknown name: the most similar task, and all known ones."""
    known = _known_names()
    near = difflib.get_close_matches(_key(name), known, n=1)
    hint = f" Did you mean {known[near[0]]!r}?" if near else ""
    return f"There is no task {name!r}.{hint} Known tasks: {', '.join(dict.fromkeys(known.values()))}."


def _key(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _known_names() -> dict[str, str]:
    names = {}
    for name, source in LONG_DOCUMENT_TASKS.items():
        for alias in (name, *source.aliases):
            names[_key(alias)] = name
    for name in (*TASKS, *WIKIPEDIA_TASKS, DOCUMENTATION):
        names[_key(name)] = name
    return names


def task_metric(name: str) -> str:
    """The metric in the paper's tables for the paper's tasks, accuracy for others."""
    return TASKS[name].metric if name in TASKS else "accuracy"
