"""Figures of the records that pages of docs/ repeat."""

import re

import pytest

from ..commands import ROOT
from .page import FIGURE, NO_FIGURES, Page
from .test_few_labels import against_setfit, few_labels, mean_of_sets
from .test_length import PAIRED, SMALL, TITLED, gain
from .test_projection import gain as gain_of_projection
from .test_readme import before_and_after

DOCS = sorted((ROOT / "docs").glob("*.md"))
READ_WHOLE = ("encoders.md", "remote_datastore.md", "contracts.md", "scale.md")  # by tests of their own


def test_few_labels():
    page = Page("docs/few_labels.md")
    page.says(
        "macro F1 is [{}](results/few_labels.md); without the documents {}, of a linear probe {}.",
        *(100 * mean_of_sets("unseen", s, "5") for s in ("ours", "ours_without_documents", "probe")),
    )
    assert page.wrong == []


def test_coming_from_setfit():
    page = Page("docs/coming_from_setfit.md")
    page.says("in fewer draws, and with fewer pairs on two of the sets | {} with", few_labels("ours", "5"))
    page.says("| [{}](results/few_labels.md#setfit), in", few_labels("setfit", "5"))
    page.says("with documents, {} without |", few_labels("ours_without_documents", "5"))
    found = against_setfit()
    page.says("| [{}](results/few_labels.md#setfit) | {}, and once", *found["bbc", "5", "default"][3:])
    _, theirs, ours, *_ = found["fakenews", "5", "default"]
    page.says("On FakeNews with 5 labels SetFit is {} points ahead", 100 * (theirs - ours))
    assert page.wrong == []


def test_no_labels():
    page = Page("docs/no_labels.md")
    page.says("macro F1 is [{}](results/few_labels.md) with the names", few_labels("ours", "0"))
    page.says("{} for the label whose name is nearest", few_labels("name_cosine", "0"))
    page.says("(BBC News {})", few_labels("ours", "0", task="bbc"))
    assert page.wrong == []


def test_reliability():
    page = Page("docs/reliability.md")
    smallest = [100 * (1 - 0.1 ** (1 / count)) for count in (25, 100, 500)]
    page.says("which is {} % for 25 examples, {} % for 100 and {} % for 500", *smallest)
    assert page.wrong == []


@pytest.mark.parametrize("path", [p for p in DOCS if p.name not in READ_WHOLE], ids=lambda path: path.name)
def test_a_page_with_measured_tables_says_that_it_has_no_record(path):
    text = NO_FIGURES.sub("", path.read_text(encoding="utf-8"))
    figures = [FIGURE.findall(line) for line in text.splitlines() if line.startswith("|")]
    if sum(map(len, figures)) > 40:  # else keep the records, and read the tables here
        assert re.search("no record", text, flags=re.IGNORECASE)


def test_pretraining():
    page = Page("docs/pretraining.md")
    page.says("([{} before, {} after](results/study.md", *before_and_after())
    page.says("it gained {} points of macro F1 on the mean", gain_of_projection("MiniLM", "projection")[0])
    assert page.wrong == []


def test_decisions():
    page = Page("docs/decisions.md")
    most, told = gain(SMALL, "head_tail", PAIRED, "probe"), gain(SMALL, "head_tail", TITLED, "probe")
    page.says("`head_tail` gains {} points where the beginning says nothing, and loses {} where", most, -told)
    average = [gain(SMALL, "average", task, "probe", None) for task in (TITLED, PAIRED)]
    page.says(
        "`average` loses at most {} points with a probe, within the noise, and gains up to {},", -average[0], average[1]
    )
    assert page.wrong == []
