import pytest

from experiments.tasks.known_tasks import NEWSGROUPS, newsgroup_texts, title_and_archive

HEADER = "From: ann@example.org (Ann)\nSubject: Re: comets\nLines: 9\n\n"


def test_headers_signatures_and_quotations_go_by_the_rules_of_scikit_learn():
    body = "In article <1@x> Bob writes:\n> Is it near?\n\nIt is.\nIt said: no.\n\nAnn\n"
    texts = {kept: newsgroup_texts([HEADER + body], kept) for kept in NEWSGROUPS}
    assert texts == {"stripped": ["\nIt is."], "body": [body], "raw": [HEADER + body]}
    assert newsgroup_texts([HEADER + "> all of it is quoted\n"], "stripped") == [""]


@pytest.mark.parametrize(
    ("categories", "archive"), [("hep-ph", "hep-ph"), ("math.CO cs.DM", "math"), (["q-bio.NC stat.ML"], "q-bio")]
)
def test_the_archive_of_the_first_category_is_the_label(categories, archive):
    row = {"title": "On trees", "abstract": "  We\ncount.\n", "categories": categories}
    assert title_and_archive(row) == {"text": "On trees\nWe count.", "label": archive}
