"""Sets that are prepared already, in a folder each: docs/results describes where they are from."""

from __future__ import annotations

from sklearn.datasets._twenty_newsgroups import (
    strip_newsgroup_footer,
    strip_newsgroup_header,
    strip_newsgroup_quoting,
)

from benchmarks.quality.sets.readers import prepared
from benchmarks.quality.sets.records import DataSet

NEWSGROUPS = (
    "alt.atheism comp.graphics comp.os.ms-windows.misc comp.sys.ibm.pc.hardware comp.sys.mac.hardware comp.windows.x "
    "misc.forsale rec.autos rec.motorcycles rec.sport.baseball rec.sport.hockey sci.crypt sci.electronics sci.med "
    "sci.space soc.religion.christian talk.politics.guns talk.politics.mideast talk.politics.misc talk.religion.misc"
).split()
PAIR_CHARACTERS = 2000


def _without_headers(text: str) -> str:
    """The text of a message, without its headers, signature and quotations."""
    return strip_newsgroup_quoting(strip_newsgroup_footer(strip_newsgroup_header(text)))


def _beginning(text: str) -> str:
    return text[:PAIR_CHARACTERS]


def _category(label: str) -> str:
    """An archive of arXiv and its category, if it has one: "cs > CL"."""
    return label.replace(".", " > ")


PREPARED = [
    DataSet(
        name="20news",
        kind="topics",
        language="en",
        repository="julenminer/mlnn_P65",
        commit="7393be663c8dd63e64c8264476494e62edf05c6e",
        path="data/20news-bydate-train",
        license="not stated",
        read=prepared(change=_without_headers),
        note="test from spoddutur/spark-ml-dashboard@d95a19293f4cca408ae9c889921b91287f1514ba",
    ),
    DataSet(
        name="20news_tree",
        kind="topics, tree",
        language="en",
        repository="julenminer/mlnn_P65",
        commit="7393be663c8dd63e64c8264476494e62edf05c6e",
        path="data/20news-bydate-train",
        license="not stated",
        prepared_as="20news",
        read=prepared(
            change=_without_headers,
            names={name: " > ".join(name.split(".", 1)) for name in NEWSGROUPS},
        ),
        note="the texts of 20news",
    ),
    DataSet(
        name="bbc_news",
        kind="topics",
        language="en",
        repository="dejanbatanjac/bbc-article-classify-bert",
        commit="8265dc84e88b82b87ce7f5b2df5bbbb1159ae922",
        path="bbc",
        license="research",
        read=prepared(),
    ),
    DataSet(
        name="aan_pairs",
        kind="no topics",
        language="en",
        repository="WING-NUS/scisumm-corpus",
        commit="1dd68e44df5c94cc767cc301cd04e61c52e4bf68",
        path="data",
        license="CC BY 4.0",
        read=prepared(pair_file="docs.jsonl.gz", change=_beginning, names={"0": "no citation", "1": "citation"}),
        train_rows=1000,
        test_rows=500,
        note="links from jot321/PaperRankRecommendation@233e37291b6b7f53608317ac0ec0bb4325016645; 2,000 characters",
    ),
    DataSet(
        name="arxiv_abstracts",
        kind="topics",
        language="en",
        repository="staeiou/arxiv_archive",
        commit="f043eb1d71da6ed2fb9eac63ab8707359ff606ea",
        path="processed_data",
        license="CC0",
        read=prepared(),
    ),
    DataSet(
        name="arxiv_tree",
        kind="topics, many classes, tree",
        language="en",
        repository="staeiou/arxiv_archive",
        commit="f043eb1d71da6ed2fb9eac63ab8707359ff606ea",
        path="processed_data",
        license="CC0",
        prepared_as="arxiv_abstracts",
        read=prepared(label="cat", names=_category),
        note="the texts of arxiv_abstracts",
    ),
    DataSet(
        name="fakenews_small",
        kind="no topics",
        language="en",
        repository="pmacinec/fake-news-datasets",
        commit="0ea4a5ccaf7698cb44ba01855295989a8e26e144",
        path="datasets",
        license="research",
        read=prepared(),
    ),
    DataSet(
        name="glue_cola",
        kind="no topics",
        language="en",
        repository="F0restL1n/BERT",
        commit="0d0288be08079531c7b3a85af3d532f9adb0f13a",
        path="glue_data/CoLA",
        license="GLUE",
        read=prepared(names={"0": "unacceptable", "1": "acceptable"}),
    ),
    DataSet(
        name="glue_sst2",
        kind="no topics",
        language="en",
        repository="F0restL1n/BERT",
        commit="0d0288be08079531c7b3a85af3d532f9adb0f13a",
        path="glue_data/SST-2",
        license="GLUE",
        read=prepared(names={"0": "negative", "1": "positive"}),
    ),
    DataSet(
        name="glue_mrpc",
        kind="no topics",
        language="en",
        repository="F0restL1n/BERT",
        commit="0d0288be08079531c7b3a85af3d532f9adb0f13a",
        path="glue_data/MRPC",
        license="GLUE",
        read=prepared(names={"0": "different", "1": "paraphrase"}),
    ),
    DataSet(
        name="glue_qnli_dev",
        kind="no topics",
        language="en",
        repository="F0restL1n/BERT",
        commit="0d0288be08079531c7b3a85af3d532f9adb0f13a",
        path="glue_data/QNLI",
        license="CC BY-SA 4.0",
        read=prepared(),
    ),
    DataSet(
        name="clue_iflytek",
        kind="topics, many classes",
        language="zh",
        repository="CLUEbenchmark/FewCLUE",
        commit="62a02c6f31cf32814cfe522f78ef088228840f8d",
        path="datasets/iflytek",
        license="not stated",
        read=prepared(label="label_name"),
        note="test from shawroad/Text-Classification-Pytorch@c1547ea231742d6317c612ae161343071427c4c8",
    ),
    DataSet(
        name="clue_tnews",
        kind="topics",
        language="zh",
        repository="CLUEbenchmark/FewCLUE",
        commit="62a02c6f31cf32814cfe522f78ef088228840f8d",
        path="datasets/tnews",
        license="not stated",
        read=prepared(label="label_name"),
        note="test from shawroad/Text-Classification-Pytorch@c1547ea231742d6317c612ae161343071427c4c8",
    ),
    DataSet(
        name="clue_csl",
        kind="no topics",
        language="zh",
        repository="YFHuangxxxx/cPromptSource",
        commit="f63a3234e2f103b396dd3bac00219efcbc437229",
        path="promptsource/datasets/csl_public",
        license="not stated",
        read=prepared(names={"0": "wrong keywords", "1": "right keywords"}),
    ),
    DataSet(
        name="clue_wsc",
        kind="no topics",
        language="zh",
        repository="YFHuangxxxx/cPromptSource",
        commit="f63a3234e2f103b396dd3bac00219efcbc437229",
        path="promptsource/datasets/CLUEWSC2020_public",
        license="not stated",
        read=prepared(),
    ),
    DataSet(
        name="clue_ocnli_10k",
        kind="no topics",
        language="zh",
        repository="CLUEbenchmark/OCNLI",
        commit="b53efdee17257a5c33993cf6fcf8ffff0497ea0e",
        path="data/ocnli",
        license="CC BY-NC 2.0",
        read=prepared(),
    ),
    DataSet(
        name="clue_afqmc_dev",
        kind="no topics",
        language="zh",
        repository="LeslieOverfitting/nlp_AFQMC",
        commit="c5ab1362720637c3cd10e48ef0ac3523d84ac057",
        path="data/dev.json",
        license="not stated",
        read=prepared(names={"0": "different", "1": "same"}),
    ),
    DataSet(
        name="contracts_lexpredict",
        kind="topics",
        language="en",
        repository="LexPredict/lexpredict-contraxsuite-samples",
        commit="2e01728e21e2ba8181e6cdb25c180dc29d311449",
        path=".",
        license="CC BY-SA 4.0",
        read=prepared(),
    ),
    DataSet(
        name="ledgar_1000",
        kind="topics, many classes",
        language="en",
        repository="coastalcph/zeroshot_lexglue",
        commit="d23e81e4a0c59518c0c102357bdeaf4ba0db82f4",
        path="data",
        license="CC BY 4.0",
        read=prepared(),
    ),
    DataSet(
        name="clinc150",
        kind="topics, many classes",
        language="en",
        repository="clinc/oos-eval",
        commit="828f8093932c8fe6ca7936c3d2e52903b1c523de",
        path="data/data_full.json",
        license="CC BY 3.0",
        read=prepared(),
    ),
]
