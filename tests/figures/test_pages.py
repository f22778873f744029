"""Figures in pages are those of the records; ``python -m docs.figures`` writes them."""

import pytest

from docs.figures.__main__ import changed_pages
from docs.figures.pages import write_figures
from docs.figures.records import ROOT

PAGE = """Macro F1 is <!--=ours-->0.0, a gain of <!--=gain-->+0.0 ± 0.0; best is <!-- text: best -->?<!-- end -->.

<!-- table: means -->
| system | mean |
|---|---|
| old | 0 |
<!-- end -->
"""
FIGURES = {"ours": 1234.56, "gain": (-0.04, 0.55), "best": "`a`", "means": [("new", "1")]}


def test_writing_the_figures_anew_changes_no_page():
    assert [str(path.relative_to(ROOT)) for path, _ in changed_pages()] == []


def test_figures_keep_the_digits_and_the_sign_of_those_they_replace():
    written = write_figures(PAGE, FIGURES)
    assert written == PAGE.replace("ours-->0.0", "ours-->1,234.6").replace("+0.0 ± 0.0", "+0.0 ± 0.6").replace(
        "?", "`a`"
    ).replace("| old | 0 |", "| new | 1 |")
    assert write_figures(written, FIGURES) == written


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (PAGE.replace("=ours", "=theirs"), "does not show \\['ours'\\]"),
        (f"{PAGE}And <!--=theirs-->1", "no figure 'theirs'"),
        (PAGE.replace("ours-->0.0", "ours-->many"), "No number follows <!--=ours-->"),
        (PAGE.replace(" ± 0.0", ""), "'gain' is \\(-0.04, 0.55\\)"),
        (f"- <!--=ours-->1\n{PAGE}", "begins the line"),
    ],
)
def test_a_comment_that_cannot_be_filled_is_named(page, error):
    with pytest.raises(ValueError, match=error):
        write_figures(page, FIGURES)
