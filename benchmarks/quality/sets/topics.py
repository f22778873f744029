"""Sets of topics, and of requests by what is asked."""

from __future__ import annotations

from benchmarks.quality.sets.readers import Read, line_with_label, table, texts_and_labels
from benchmarks.quality.sets.records import Clone, DataSet, Row, Splits

AG_NEWS = {"1": "world", "2": "sports", "3": "business", "4": "science and technology"}
MEDICAL = {
    "1": "neoplasms",
    "2": "digestive system diseases",
    "3": "nervous system diseases",
    "4": "cardiovascular diseases",
    "5": "general pathological conditions",
}
THUCNEWS = "finance realty stocks education science society politics sports game entertainment".split()
STACKOVERFLOW = (
    "wordpress oracle svn apache excel matlab visual-studio cocoa osx bash spark hibernate scala sharepoint ajax qt "
    "drupal linq haskell magento"
).split()
SMART_HOME = "CrossValidation/autoGeneFromRealAnno/autoGene_2018_03_22-13_01_25_169/CrossValidation/KFold_1/trainset/"
TREC_COARSE = {
    "ABBR": "abbreviation",
    "DESC": "description",
    "ENTY": "entity",
    "HUM": "human",
    "LOC": "location",
    "NUM": "number",
}


def _question_type(label: str) -> str:
    """The coarse type of a question of TREC."""
    return TREC_COARSE[label.split(":")[0]]


def _question_tree(label: str) -> str:
    """Both types of a question of TREC."""
    parts = label.split(":")
    return f"{TREC_COARSE[parts[0]]} > {parts[1]}"


def _first_intent(label: str) -> str:
    """The first of the intents of a request in ATIS."""
    return label.split("#")[0]


def requests(folder: str) -> Read:
    """Read a folder with the requests and their intents."""
    return texts_and_labels(
        [(f"{folder}/train/seq.in", f"{folder}/train/label")],
        [(f"{folder}/test/seq.in", f"{folder}/test/label")],
        names=_first_intent,
    )


def problem_reports(clone: Clone) -> Splits:
    """Read titles of reports of problems, by project."""
    archive = clone.archive("packages/corpora/problem_reports.zip")
    rows = []
    for project in ("apache", "eclipse", "firefox", "linux", "openoffice"):
        for line in archive.read(f"problem_reports/{project}").decode("utf-8", errors="replace").splitlines():
            rows.append(Row(text=_without_tags(line), label=project))
    return Splits(train=rows)


def _without_tags(text: str) -> str:
    """Words without the part of speech after each."""
    return " ".join(token.rsplit("/", 1)[0] for token in text.split())


TOPICS = [
    DataSet(
        name="ag_news",
        kind="topics",
        language="en",
        repository="mhjabreel/CharCnn_Keras",
        commit="555590db4219b1243abb1918effd6a7425a2d75f",
        path="data/ag_news_csv/test.csv",
        license="not stated",
        read=table("data/ag_news_csv/test.csv", text=(1, 2), label=0, names=AG_NEWS),
    ),
    DataSet(
        name="medical_abstracts",
        kind="topics",
        language="en",
        repository="sebischair/Medical-Abstracts-TC-Corpus",
        commit="70a2d9106c724729be8b3c4ddb00d1b14ec300c8",
        path="medical_tc_test.csv",
        license="CC BY-SA 3.0",
        read=table("medical_tc_test.csv", text="medical_abstract", label="condition_label", names=MEDICAL),
    ),
    DataSet(
        name="stackoverflow",
        kind="topics",
        language="en",
        repository="jacoxu/StackOverflow",
        commit="7c207f51e649fff9e4736610b9d44431bb7ccf00",
        path="rawText",
        license="not stated",
        read=texts_and_labels(
            [("rawText/title_StackOverflow.txt", "rawText/label_StackOverflow.txt")],
            names={str(number): name for number, name in enumerate(STACKOVERFLOW, start=1)},
        ),
    ),
    DataSet(
        name="biomedical_titles",
        kind="topics",
        language="en",
        repository="rashadulrakib/short-text-clustering-enhancement",
        commit="f363b66e6fd51f9dd1db679d2a9ce55538ab9868",
        path="data/biomedical/biomedical_true_text",
        license="not stated",
        read=line_with_label("data/biomedical/biomedical_true_text", separator="\t"),
        note="classes are numbered",
    ),
    DataSet(
        name="banking77",
        kind="topics, many classes",
        language="en",
        repository="PolyAI-LDN/task-specific-datasets",
        commit="57ec275d8078af65b7731c2a98be812d844a6d6b",
        path="banking_data",
        license="CC BY 4.0",
        read=table("banking_data/train.csv", "banking_data/test.csv", text="text", label="category"),
    ),
    DataSet(
        name="hwu64",
        kind="topics, many classes",
        language="en",
        repository="xliuhw/NLU-Evaluation-Data",
        commit="f6071b496b17d71e6eb43f543af0707f4ff30557",
        path="KFold_1/trainset",
        license="CC BY 4.0",
        read=table(
            SMART_HOME,
            text="answer_from_anno",
            label=("scenario", "intent"),
            label_separator=" ",
            separator=";",
        ),
    ),
    DataSet(
        name="hwu64_tree",
        kind="topics, many classes, tree",
        language="en",
        repository="xliuhw/NLU-Evaluation-Data",
        commit="f6071b496b17d71e6eb43f543af0707f4ff30557",
        path="KFold_1/trainset",
        license="CC BY 4.0",
        read=table(SMART_HOME, text="answer_from_anno", label=("scenario", "intent"), separator=";"),
        note="the texts of hwu64",
    ),
    DataSet(
        name="snips",
        kind="topics",
        language="en",
        repository="yuanxiaosc/BERT-for-Sequence-Labeling-and-Text-Classification",
        commit="2a6d2f9c732a362458030643e131540e7d1cdcca",
        path="data/snips_Intent_Detection_and_Slot_Filling",
        license="CC0",
        read=requests("data/snips_Intent_Detection_and_Slot_Filling"),
    ),
    DataSet(
        name="atis",
        kind="topics",
        language="en",
        repository="yuanxiaosc/BERT-for-Sequence-Labeling-and-Text-Classification",
        commit="2a6d2f9c732a362458030643e131540e7d1cdcca",
        path="data/atis_Intent_Detection_and_Slot_Filling",
        license="not stated",
        read=requests("data/atis_Intent_Detection_and_Slot_Filling"),
    ),
    DataSet(
        name="trec_coarse",
        kind="no topics",
        language="en",
        repository="harvardnlp/sent-conv-torch",
        commit="d61ded09c99c0199d8c5bca946cd65864de2b296",
        path="data/raw/TREC.train",
        license="not stated",
        read=line_with_label("data/raw/TREC.train", "data/raw/TREC.test", names=_question_type),
    ),
    DataSet(
        name="trec_tree",
        kind="no topics, many classes, tree",
        language="en",
        repository="harvardnlp/sent-conv-torch",
        commit="d61ded09c99c0199d8c5bca946cd65864de2b296",
        path="data/raw/TREC.train",
        license="not stated",
        read=line_with_label("data/raw/TREC.train", "data/raw/TREC.test", names=_question_tree),
        note="the texts of trec_coarse",
    ),
    DataSet(
        name="10kgnad",
        kind="topics",
        language="de",
        repository="tblock/10kGNAD",
        commit="da845fe4a16f02a8de10903ffbc636d1c8d21862",
        path="test.csv",
        license="CC BY-NC-SA 4.0",
        read=table("test.csv", text=1, label=0, separator=";", quote="'"),
    ),
    DataSet(
        name="thucnews_titles",
        kind="topics",
        language="zh",
        repository="649453932/Chinese-Text-Classification-Pytorch",
        commit="6cb26819af7b646275aff8a4693676f2849e67f6",
        path="THUCNews/data",
        license="not stated",
        read=line_with_label(
            ["THUCNews/data/dev.txt", "THUCNews/data/test.txt"],
            separator="\t",
            names={str(number): name for number, name in enumerate(THUCNEWS)},
            label_is_last=True,
        ),
    ),
    DataSet(
        name="online_shopping",
        kind="topics",
        language="zh",
        repository="SophonPlus/ChineseNlpCorpus",
        commit="a0b781d72158bde242c0626c9e354d2b328865ff",
        path="datasets/online_shopping_10_cats",
        license="not stated",
        read=table(
            "datasets/online_shopping_10_cats/online_shopping_10_cats.zip!online_shopping_10_cats.csv",
            text="review",
            label="cat",
        ),
    ),
    DataSet(
        name="movie_genres",
        kind="topics",
        language="en",
        repository="RaRe-Technologies/movie-plots-by-genre",
        commit="9e9f3479f928c9eb39f08b9915a858d327e22d27",
        path="data/tagged_plots_movielens.csv",
        license="not stated",
        read=table("data/tagged_plots_movielens.csv", text="plot", label="tag"),
    ),
    DataSet(
        name="reuters_r8",
        kind="topics",
        language="en",
        repository="Maryam-ask/NLP_PFAI_Assignment",
        commit="22b863544b9282b7795bdc8be1e3906f2608b274",
        path="r8-train-all-terms.txt",
        license="research",
        read=table(
            "r8-train-all-terms.txt",
            "r8-test-all-terms.txt",
            text="Example",
            label="Class",
            separator="\t",
            quoted=False,
        ),
    ),
    DataSet(
        name="problem_reports",
        kind="topics",
        language="en",
        repository="nltk/nltk_data",
        commit="5db857e6f7df11eabb5e5665836db9ec8df07e28",
        path="packages/corpora/problem_reports.zip",
        license="not stated",
        read=problem_reports,
    ),
]
