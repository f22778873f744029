"""Figures of the records that pages of docs/ repeat."""

from .page import Page
from .test_few_labels import against_setfit, few_labels
from .test_length import PAIRED, SMALL, TITLED, gain
from .test_projection import gain as gain_of_projection
from .test_readme import before_and_after


def test_few_labels():
    page = Page("docs/few_labels.md")
    page.says(
        "macro F1 is [{}](results/few_labels.md); without the documents {}.",
        *(few_labels(s, "5") for s in ("ours", "ours_without_documents")),
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


def test_pretraining():
    page = Page("docs/pretraining.md")
    page.says("([{} before, {} after](results/study.md", *before_and_after())
    page.says("it gained {} points of macro F1 on the mean", gain_of_projection("MiniLM", "projection")[0])
    assert page.wrong == []


def test_architecture():
    page = Page("docs/architecture.md")
    most, told = gain(SMALL, "head_tail", PAIRED, "probe"), gain(SMALL, "head_tail", TITLED, "probe")
    page.says("`head_tail` gains {} points where the beginning says nothing, and loses {} where", most, -told)
    average = [gain(SMALL, "average", task, "probe", None) for task in (TITLED, PAIRED)]
    page.says(
        "`average` loses at most {} points with a probe, within the noise, and gains up to {},", -average[0], average[1]
    )
    assert page.wrong == []
