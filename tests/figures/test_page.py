"""What a page of figures finds wrong, of a page made for it."""

import pytest

from .page import Page

TEXT = """Ours has 54.1 % and theirs 50.0, by 4.1 points, in 3 draws, 1,200 texts.

| system | score |
|---|---|
| ours | 54.1 ± 0.3 |
| theirs | 50.0 ± 0.2 |
"""


def read(path, ours=54.14, rows=(("ours", "54.1 ± 0.3"), ("theirs", "50.0 ± 0.2"))):
    page = Page(path)
    page.says("Ours has {} % and theirs {}, by {} points", ours, 50.0, 4.1)
    page.has_rows(rows)
    return page


@pytest.fixture
def path(tmp_path):
    (tmp_path / "page.md").write_text(TEXT)
    return tmp_path / "page.md"


def test_a_true_page_passes(path):
    page = read(path)
    page.check(at_least=7)
    assert page.read == 7


@pytest.mark.parametrize("number", ["54.1 %", "50.0,", "4.1 points", "ours | 54.1", "± 0.2"])
def test_each_number_that_is_changed_is_told(path, number):
    path.write_text(TEXT.replace(number, number.replace("1", "2").replace("0", "5"), 1))
    with pytest.raises(AssertionError, match=r"the records give"):
        read(path).check(at_least=7)


def test_a_value_that_is_rounded_twice_is_told(path):
    read(path, ours=54.1499).check(at_least=7)
    with pytest.raises(AssertionError, match=r"number 1 is 54\.1, the records give 54\.15"):
        read(path, ours=54.1501).check(at_least=7)


@pytest.mark.parametrize("added", ["It has 12.5 now.", "It has 12 %.", "It is 12 times as fast.", "| new | 1.5 |"])
def test_a_new_figure_needs_a_record(path, added):
    path.write_text(f"{TEXT}\n{added}\n")
    with pytest.raises(AssertionError, match=r"no record is named for 1"):
        read(path).check(at_least=7)
    page = read(path)
    page.without_record(added)
    page.check(at_least=7)


def test_a_text_that_is_gone_is_told(path):
    page = read(path)
    page.without_record("seen once: 17.0")
    page.says("and {} besides", 1)
    with pytest.raises(AssertionError, match=r"no longer 'seen once(.|\n)*0 places for 'and"):
        page.check(at_least=7)


def test_code_addresses_and_versions_are_no_figures(path):
    path.write_text(TEXT + "`k=0.5`, [a](b_0.5.md), Python 3.11\n\n```bash\nrun 0.5\n```\n")
    read(path).check(at_least=7)
