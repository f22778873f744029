import logging

import pytest

from docsplit_hf.experiments.tasks.known_tasks import title_and_archive, without_newsgroup_metadata

HEADER = "From: ann@example.org (Ann)\nSubject: Re: comets\nLines: 9\n\n"


def test_headers_signatures_and_quotations_go_by_the_rules_of_scikit_learn():
    post = HEADER + "In article <1@x> Bob writes:\n> Is it near?\n\nIt is.\nIt said: no.\n\nAnn\n"
    assert without_newsgroup_metadata([post]) == ["\nIt is."]
    assert without_newsgroup_metadata([HEADER + "> all of it is quoted\n"]) == [""]


def test_posts_without_headers_are_left_as_they_are(caplog):
    posts = ["First paragraph.\n\nSecond paragraph.\n\nBye"] * 9 + [HEADER + "One is different."]
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        assert without_newsgroup_metadata(posts[:9]) == posts[:9]
        assert not caplog.text
        assert without_newsgroup_metadata(posts) == posts
    assert "1 of 10 posts begin like one with a header" in caplog.text
    assert without_newsgroup_metadata([]) == []


@pytest.mark.parametrize(
    ("categories", "archive"), [("hep-ph", "hep-ph"), ("math.CO cs.DM", "math"), (["q-bio.NC stat.ML"], "q-bio")]
)
def test_the_archive_of_the_first_category_is_the_label(categories, archive):
    row = {"title": "On trees", "abstract": "  We\ncount.\n", "categories": categories}
    assert title_and_archive(row) == {"text": "On trees\nWe count.", "label": archive}


def test_a_paper_without_a_category_is_refused():
    with pytest.raises(ValueError, match="'On trees' has no category"):
        title_and_archive({"title": "On trees", "abstract": "", "categories": []})
