"""Sets of topics, and of requests by what is asked."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from benchmarks.quality.sets.readers import Read, folders, jsonl, line_with_label, table, texts_and_labels
from benchmarks.quality.sets.records import Clone, DataSet, Row, Splits

AG_NEWS = {"1": "world", "2": "sports", "3": "business", "4": "science and technology"}
OHSUMED = (
    "bacterial infections and mycoses, virus diseases, parasitic diseases, neoplasms, musculoskeletal diseases, "
    "digestive system diseases, stomatognathic diseases, respiratory tract diseases, otorhinolaryngologic diseases, "
    "nervous system diseases, eye diseases, urologic and male genital diseases, female genital diseases, "
    "cardiovascular diseases, hemic and lymphatic diseases, neonatal diseases and abnormalities, "
    "skin and connective tissue diseases, nutritional and metabolic diseases, endocrine diseases, "
    "immunologic diseases, disorders of environmental origin, animal diseases, pathological conditions"
).split(", ")
AMAZON = "sorted_data_acl"
AMAZON_PRODUCTS = {"books": "books", "dvd": "dvd", "electronics": "electronics", "kitchen_&_housewares": "housewares"}
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


def disease(path: str) -> str:
    """The disease of an abstract of Ohsumed, whose folder is named C01 and so on."""
    return OHSUMED[int(path.split("/")[-2][1:]) - 1]


def amazon(of: str) -> Read:
    """Read reviews of products, labeled by their "product" or "sentiment"."""

    def read(clone: Clone) -> Splits:
        rows = []
        for folder, product in AMAZON_PRODUCTS.items():
            for sentiment in ("negative", "positive"):
                content = clone.text_of(f"{AMAZON}/{folder}/{sentiment}.review", "latin-1")
                for text in re.findall(r"<review_text>(.*?)</review_text>", content, re.DOTALL):
                    rows.append(Row(text=text, label=product if of == "product" else sentiment))
        return Splits(train=rows)

    return read


def news_events(clone: Clone) -> Splits:
    """Read articles by the event that they report; each number has two similar events."""
    rows = []
    for path, content in clone.files("ECB+_LREC2014/ECB+").items():
        if path.endswith(".xml"):
            name = path.split("/")[-1].removesuffix(".xml")
            number = name.split("_")[0]
            other = " b" if name.endswith("plus") else " a"
            words = [token.text or "" for token in ElementTree.fromstring(content).iter("token")]
            rows.append(Row(text=" ".join(words), label=f"event {number}{other}"))
    return Splits(train=rows)


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
        name="insurance_requests",
        kind="topics, many classes",
        language="en",
        repository="AmFamMLTeam/ACID",
        commit="66bc5e0afa33495d8c61fba76b8c551af84bfa6e",
        path="customer_training.csv, customer_testing.csv",
        license="not stated",
        read=table("customer_training.csv", "customer_testing.csv", text="UTTERANCES", label="INTENT_NAME"),
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
    DataSet(
        name="ohsumed",
        kind="topics",
        language="en",
        repository="yao8839836/text_gcn",
        commit="962223652e9bb164ac2d83cd09fc7b8845ce860b",
        path="data/ohsumed_single_23",
        license="not stated",
        read=folders("data/ohsumed_single_23/training", "data/ohsumed_single_23/test", label_of=disease),
    ),
    DataSet(
        name="mag_titles",
        kind="topics",
        language="en",
        repository="allenai/scibert",
        commit="06793f77d7278898159ed50da30d173cdc8fdea9",
        path="data/text_classification/mag",
        license="Apache 2.0",
        read=jsonl("data/text_classification/mag/test.txt", text="text", label="label"),
    ),
    DataSet(
        name="amazon_product",
        kind="topics",
        language="en",
        repository="lorenzoritter/domainadaption",
        commit="f35a75418ea0ecf75dd85237bfcf68c224533747",
        path="sorted_data_acl",
        license="research",
        read=amazon("product"),
        train_rows=2500,
        test_rows=1000,
    ),
    DataSet(
        name="amazon_sentiment",
        kind="no topics",
        language="en",
        repository="lorenzoritter/domainadaption",
        commit="f35a75418ea0ecf75dd85237bfcf68c224533747",
        path="sorted_data_acl",
        license="research",
        read=amazon("sentiment"),
        train_rows=2500,
        test_rows=1000,
        note="the texts of amazon_product",
    ),
    DataSet(
        name="reddit_community",
        kind="topics",
        language="en",
        repository="ShirCohen1/Stress_Analysis_in_Social_Media",
        commit="9ef1d8d4259d9f731d29fd952b9a735662f44a40",
        path="dreaddit-train.csv, dreaddit-test.csv",
        license="research",
        read=table("dreaddit-train.csv", "dreaddit-test.csv", text="text", label="subreddit"),
    ),
    DataSet(
        name="reddit_stress",
        kind="no topics",
        language="en",
        repository="ShirCohen1/Stress_Analysis_in_Social_Media",
        commit="9ef1d8d4259d9f731d29fd952b9a735662f44a40",
        path="dreaddit-train.csv, dreaddit-test.csv",
        license="research",
        read=table(
            "dreaddit-train.csv",
            "dreaddit-test.csv",
            text="text",
            label="label",
            names={"0": "no stress", "1": "stress"},
        ),
        note="the texts of reddit_community",
    ),
    DataSet(
        name="privacy",
        kind="topics",
        language="en",
        repository="SmartDataAnalytics/Polisis_Benchmark",
        commit="4e42f557c9937ca3f0536736f435a80f476213ef",
        path="datasets/Majority",
        license="research",
        read=table(
            "datasets/Majority/train_dataset.csv",
            "datasets/Majority/test_dataset.csv",
            text=0,
            label=1,
        ),
    ),
    DataSet(
        name="symptoms",
        kind="topics",
        language="en",
        repository="t4ai/nlp-medical-diagnosis-classifier",
        commit="47808524823a2a2ea3862e10432cbb3798cded35",
        path="Symptom2Disease.csv",
        license="not stated",
        read=table("Symptom2Disease.csv", text="text", label="label"),
    ),
    DataSet(
        name="github_issues",
        kind="no topics",
        language="en",
        repository="nlbse2024/issue-report-classification",
        commit="2927bc67eb42db8affd16eaf3e5a6d74f3063961",
        path="data",
        license="not stated",
        read=table("data/issues_train.csv", "data/issues_test.csv", text=("title", "body"), label="label"),
        train_rows=1500,
        test_rows=600,
    ),
    DataSet(
        name="news_events",
        kind="topics, many classes",
        language="en",
        repository="cltl/EventStoryLine",
        commit="715932bdd4d6c9fbf9b5a248006ab216502eecc3",
        path="ECB+_LREC2014/ECB+",
        license="CC BY 3.0",
        read=news_events,
    ),
]
