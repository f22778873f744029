"""Sets that are no topics: sentiment, style, stance, truth, offense."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from benchmarks.quality.sets.readers import (
    Read,
    file_of_each_label,
    folders,
    jsonl,
    line_with_label,
    table,
    texts_and_labels,
)
from benchmarks.quality.sets.records import Clone, DataSet, Row, Splits

SENTIMENT = {"0": "negative", "1": "neutral", "2": "positive"}
BROWN_CHARACTERS = 3000
STANCE_TARGETS = {
    "abortion": "legalization of abortion",
    "atheism": "atheism",
    "climate": "climate change is a real concern",
    "feminist": "feminist movement",
    "hillary": "Hillary Clinton",
}
STANCES = {"0": "none", "1": "against", "2": "favor"}
SENSES = {
    "1": "readiness to give attention",
    "2": "quality of causing attention",
    "3": "activity that one gives attention to",
    "4": "advantage",
    "5": "share in a company",
    "6": "money paid for the use of money",
}
EMOTIONS = (
    "admiration amusement anger annoyance approval caring confusion curiosity desire disappointment disapproval "
    "disgust embarrassment excitement fear gratitude grief joy love nervousness optimism pride realization relief "
    "remorse sadness surprise neutral"
).split()
AMBIGUOUS_EMOTIONS = {"confusion", "curiosity", "realization", "surprise"}
NEGATIVE_EMOTIONS = {
    "anger",
    "annoyance",
    "disappointment",
    "disapproval",
    "disgust",
    "embarrassment",
    "fear",
    "grief",
    "nervousness",
    "remorse",
    "sadness",
}
STYLES = {
    "aae": "African American tweets",
    "bible": "Bible",
    "coha_1810-1830": "prose of 1810 to 1830",
    "coha_1890-1910": "prose of 1890 to 1910",
    "coha_1990-2000": "prose of 1990 to 2000",
    "english_tweets": "tweets",
    "joyce": "James Joyce",
    "lyrics": "lyrics",
    "romantic_poetry": "romantic poetry",
    "shakespeare": "Shakespeare",
    "switchboard": "spoken on the telephone",
}


def tweets(folder: str, names: dict[str, str]) -> Read:
    """Read a folder of TweetEval: files of texts and of labels for training and testing."""
    return texts_and_labels(
        [(f"{folder}/train_text.txt", f"{folder}/train_labels.txt")],
        [(f"{folder}/test_text.txt", f"{folder}/test_labels.txt")],
        names=names,
    )


def stance(clone: Clone) -> Splits:
    """Read tweets with what they take a stance on as the second text."""

    def read_part(part: str) -> list[Row]:
        rows = []
        for folder, target in STANCE_TARGETS.items():
            place = f"datasets/stance/{folder}/{part}"
            for text, label in zip(
                clone.lines_of(f"{place}_text.txt"), clone.lines_of(f"{place}_labels.txt"), strict=True
            ):
                rows.append(Row(text=text, label=STANCES[label.strip()], text_pair=target))
        return rows

    return Splits(train=read_part("train"), test=read_part("test"))


def fake_or_true(path: str) -> str | None:
    """The folder of a Portuguese article, without the folders about articles."""
    label = path.split("/")[-2]
    return label if label in ("fake", "true") else None


def emotion_tree(name: str) -> str:
    """An emotion below its sentiment, as the authors of GoEmotions group them."""
    if name == "neutral":
        return name
    if name in AMBIGUOUS_EMOTIONS:
        return f"ambiguous > {name}"
    return f"negative > {name}" if name in NEGATIVE_EMOTIONS else f"positive > {name}"


def pros_and_cons(clone: Clone) -> Splits:
    """Read short statements for and against products."""
    archive = clone.archive("packages/corpora/pros_cons.zip")
    rows = []
    for name in ("Pros", "Cons"):
        content = archive.read(f"pros_cons/Integrated{name}.txt").decode("latin-1")
        for text in re.findall(rf"<{name}>(.*?)</{name}>", content):
            rows.append(Row(text=html.unescape(text), label=name.lower()))
    return Splits(train=rows)


def movie_reviews(clone: Clone) -> Splits:
    """Read whole reviews of films."""
    archive = clone.archive("packages/corpora/movie_reviews.zip")
    rows = []
    for path in sorted(archive.namelist()):
        label = {"neg": "negative", "pos": "positive"}.get(path.split("/")[1])
        if label is not None and path.endswith(".txt"):
            rows.append(Row(text=archive.read(path).decode("latin-1"), label=label))
    return Splits(train=rows)


def dialog_acts(clone: Clone) -> Splits:
    """Read posts of a chat by their dialog act."""
    archive = clone.archive("packages/corpora/nps_chat.zip")
    rows = []
    for path in sorted(archive.namelist()):
        if path.endswith(".xml"):
            for post in ElementTree.fromstring(archive.read(path)).iter("Post"):
                rows.append(Row(text=post.text or "", label=post.attrib["class"]))
    return Splits(train=rows)


def senses(clone: Clone) -> Splits:
    """Read sentences with the noun "interest" by its sense."""
    content = clone.archive("packages/corpora/senseval.zip").read("senseval/interest.pos").decode()
    rows = []
    for instance in content.split("<instance")[1:]:
        number = re.findall(r'senseid="interest_(\d)"', instance)[0]
        words = re.findall(r"<wf[^>]*>([^<]*)</wf>", instance)
        rows.append(Row(text=html.unescape(" ".join(words)), label=SENSES[number]))
    return Splits(train=rows)


def brown(clone: Clone) -> Splits:
    """Read the beginnings of the Brown corpus's texts, without the tags of its words."""
    archive = clone.archive("packages/corpora/brown.zip")
    rows = []
    for line in archive.read("brown/cats.txt").decode().splitlines():
        parts = line.split()
        tagged = archive.read(f"brown/{parts[0]}").decode()
        text = " ".join(token.rsplit("/", 1)[0] for token in tagged.split())
        rows.append(Row(text=text[:BROWN_CHARACTERS], label=parts[1].replace("_", " ")))
    return Splits(train=rows)


NO_TOPICS = [
    DataSet(
        name="tweet_emotion",
        kind="no topics",
        language="en",
        repository="cardiffnlp/tweeteval",
        commit="4fbd22cd78421f05b1ecdb4fc5725bc7a7bd8f66",
        path="datasets/emotion",
        license="research",
        read=tweets("datasets/emotion", {"0": "anger", "1": "joy", "2": "optimism", "3": "sadness"}),
    ),
    DataSet(
        name="tweet_irony",
        kind="no topics",
        language="en",
        repository="cardiffnlp/tweeteval",
        commit="4fbd22cd78421f05b1ecdb4fc5725bc7a7bd8f66",
        path="datasets/irony",
        license="research",
        read=tweets("datasets/irony", {"0": "no irony", "1": "irony"}),
    ),
    DataSet(
        name="tweet_hate",
        kind="no topics",
        language="en",
        repository="cardiffnlp/tweeteval",
        commit="4fbd22cd78421f05b1ecdb4fc5725bc7a7bd8f66",
        path="datasets/hate",
        license="research",
        read=tweets("datasets/hate", {"0": "no hate", "1": "hate"}),
        note="the official test set differs from the training set",
    ),
    DataSet(
        name="tweet_offensive",
        kind="no topics",
        language="en",
        repository="cardiffnlp/tweeteval",
        commit="4fbd22cd78421f05b1ecdb4fc5725bc7a7bd8f66",
        path="datasets/offensive",
        license="research",
        read=tweets("datasets/offensive", {"0": "inoffensive", "1": "offensive"}),
    ),
    DataSet(
        name="tweet_stance",
        kind="no topics",
        language="en",
        repository="cardiffnlp/tweeteval",
        commit="4fbd22cd78421f05b1ecdb4fc5725bc7a7bd8f66",
        path="datasets/stance",
        license="research",
        read=stance,
    ),
    DataSet(
        name="customer_reviews",
        kind="no topics",
        language="en",
        repository="harvardnlp/sent-conv-torch",
        commit="d61ded09c99c0199d8c5bca946cd65864de2b296",
        path="data/custrev.all",
        license="not stated",
        read=line_with_label("data/custrev.all", names={"0": "negative", "1": "positive"}),
    ),
    DataSet(
        name="mpqa",
        kind="no topics",
        language="en",
        repository="harvardnlp/sent-conv-torch",
        commit="d61ded09c99c0199d8c5bca946cd65864de2b296",
        path="data/mpqa.all",
        license="not stated",
        read=line_with_label("data/mpqa.all", names={"0": "negative", "1": "positive"}),
    ),
    DataSet(
        name="subjectivity",
        kind="no topics",
        language="en",
        repository="harvardnlp/sent-conv-torch",
        commit="d61ded09c99c0199d8c5bca946cd65864de2b296",
        path="data/raw",
        license="not stated",
        read=file_of_each_label({"data/raw/subj.subjective": "subjective", "data/raw/subj.objective": "objective"}),
    ),
    DataSet(
        name="movie_sentences",
        kind="no topics",
        language="en",
        repository="harvardnlp/sent-conv-torch",
        commit="d61ded09c99c0199d8c5bca946cd65864de2b296",
        path="data/raw",
        license="not stated",
        read=file_of_each_label({"data/raw/rt-polarity.neg": "negative", "data/raw/rt-polarity.pos": "positive"}),
        note="many sentences of glue_sst2",
    ),
    DataSet(
        name="clickbait",
        kind="no topics",
        language="en",
        repository="bhargaviparanjape/clickbait",
        commit="203d979a81545ae6160ff45ffdac83e74469c97a",
        path="dataset",
        license="MIT",
        read=file_of_each_label({"dataset/clickbait_data.gz": "clickbait", "dataset/non_clickbait_data.gz": "news"}),
    ),
    DataSet(
        name="sms_spam",
        kind="no topics",
        language="en",
        repository="justmarkham/pycon-2016-tutorial",
        commit="5339710562cc46c4a32a369d63f1e8751a18a54e",
        path="data/sms.tsv",
        license="not stated",
        read=table("data/sms.tsv", text=1, label=0, separator="\t", quoted=False),
    ),
    DataSet(
        name="liar",
        kind="no topics",
        language="en",
        repository="tfs4/liar_dataset",
        commit="b6f55d759d525f7150637fcdbc2c517d049408b7",
        path="train.tsv, test.tsv",
        license="research",
        read=table("train.tsv", "test.tsv", text=2, label=1, separator="\t", quoted=False),
    ),
    DataSet(
        name="jokes",
        kind="no topics",
        language="en",
        repository="Moradnejad/ColBERT-Using-BERT-Sentence-Embedding-for-Humor-Detection",
        commit="1cb05ec1476e0fb21f1a624957dbc49b8388fc23",
        path="Data/dev.csv",
        license="not stated",
        read=table("Data/dev.csv", text="text", label="humor", names={"True": "joke", "False": "news"}),
    ),
    DataSet(
        name="hate_speech",
        kind="no topics",
        language="en",
        repository="t-davidson/hate-speech-and-offensive-language",
        commit="cb50f7e9eb855a99abc51423bf40df0e26d6fe30",
        path="data/labeled_data.csv",
        license="MIT",
        read=table(
            "data/labeled_data.csv",
            text="tweet",
            label="class",
            names={"0": "hate speech", "1": "offensive", "2": "neither"},
        ),
    ),
    DataSet(
        name="formality",
        kind="no topics",
        language="en",
        repository="luofuli/DualRL",
        commit="f412d903de683cf00ca471a1e413f916911a811c",
        path="data/GYAFC",
        license="research",
        read=file_of_each_label({"data/GYAFC/test.0": "formal", "data/GYAFC/test.1": "informal"}),
    ),
    DataSet(
        name="sick",
        kind="no topics",
        language="en",
        repository="alvations/stasis",
        commit="1fc82d8a9bc988b7d2ddedc8fc61b71ec2e69c4d",
        path="SICK-data",
        license="CC BY-NC-SA 3.0",
        read=table(
            "SICK-data/SICK_train.txt",
            "SICK-data/SICK_test_annotated.txt",
            text="sentence_A",
            pair="sentence_B",
            label="entailment_judgment",
            separator="\t",
            quoted=False,
        ),
    ),
    DataSet(
        name="germeval2018",
        kind="no topics",
        language="de",
        repository="uds-lsv/GermEval-2018-Data",
        commit="9877472d39523effd54cd079b4c61157ed141508",
        path="germeval2018.training.txt",
        license="CC BY 4.0",
        read=table(
            "germeval2018.training.txt",
            "germeval2018.test.txt",
            text=0,
            label=1,
            separator="\t",
            quoted=False,
        ),
    ),
    DataSet(
        name="germeval2018_fine",
        kind="no topics",
        language="de",
        repository="uds-lsv/GermEval-2018-Data",
        commit="9877472d39523effd54cd079b4c61157ed141508",
        path="germeval2018.training.txt",
        license="CC BY 4.0",
        read=table(
            "germeval2018.training.txt",
            "germeval2018.test.txt",
            text=0,
            label=2,
            separator="\t",
            quoted=False,
        ),
        note="the texts of germeval2018",
    ),
    DataSet(
        name="tweets_german",
        kind="no topics",
        language="de",
        repository="cardiffnlp/xlm-t",
        commit="874214d64d96599eb869a033c22ec2cc57d19256",
        path="data/sentiment/german",
        license="research",
        read=tweets("data/sentiment/german", SENTIMENT),
    ),
    DataSet(
        name="tweets_french",
        kind="no topics",
        language="fr",
        repository="cardiffnlp/xlm-t",
        commit="874214d64d96599eb869a033c22ec2cc57d19256",
        path="data/sentiment/french",
        license="research",
        read=tweets("data/sentiment/french", SENTIMENT),
    ),
    DataSet(
        name="tweets_spanish",
        kind="no topics",
        language="es",
        repository="cardiffnlp/xlm-t",
        commit="874214d64d96599eb869a033c22ec2cc57d19256",
        path="data/sentiment/spanish",
        license="research",
        read=tweets("data/sentiment/spanish", SENTIMENT),
    ),
    DataSet(
        name="tweets_portuguese",
        kind="no topics",
        language="pt",
        repository="cardiffnlp/xlm-t",
        commit="874214d64d96599eb869a033c22ec2cc57d19256",
        path="data/sentiment/portuguese",
        license="research",
        read=tweets("data/sentiment/portuguese", SENTIMENT),
    ),
    DataSet(
        name="tweets_italian",
        kind="no topics",
        language="it",
        repository="cardiffnlp/xlm-t",
        commit="874214d64d96599eb869a033c22ec2cc57d19256",
        path="data/sentiment/italian",
        license="research",
        read=tweets("data/sentiment/italian", SENTIMENT),
    ),
    DataSet(
        name="tweets_hindi",
        kind="no topics",
        language="hi",
        repository="cardiffnlp/xlm-t",
        commit="874214d64d96599eb869a033c22ec2cc57d19256",
        path="data/sentiment/hindi",
        license="research",
        read=tweets("data/sentiment/hindi", SENTIMENT),
    ),
    DataSet(
        name="tweets_arabic",
        kind="no topics",
        language="ar",
        repository="cardiffnlp/xlm-t",
        commit="874214d64d96599eb869a033c22ec2cc57d19256",
        path="data/sentiment/arabic",
        license="research",
        read=tweets("data/sentiment/arabic", SENTIMENT),
    ),
    DataSet(
        name="waimai",
        kind="no topics",
        language="zh",
        repository="SophonPlus/ChineseNlpCorpus",
        commit="a0b781d72158bde242c0626c9e354d2b328865ff",
        path="datasets/waimai_10k/waimai_10k.csv",
        license="not stated",
        read=table(
            "datasets/waimai_10k/waimai_10k.csv",
            text="review",
            label="label",
            names={"0": "negative", "1": "positive"},
        ),
    ),
    DataSet(
        name="hotel_reviews_chinese",
        kind="no topics",
        language="zh",
        repository="SophonPlus/ChineseNlpCorpus",
        commit="a0b781d72158bde242c0626c9e354d2b328865ff",
        path="datasets/ChnSentiCorp_htl_all",
        license="not stated",
        read=table(
            "datasets/ChnSentiCorp_htl_all/ChnSentiCorp_htl_all.csv",
            text="review",
            label="label",
            names={"0": "negative", "1": "positive"},
        ),
    ),
    DataSet(
        name="rusentiment",
        kind="no topics",
        language="ru",
        repository="strawberrypie/rusentiment",
        commit="7f2afa11a9483f5251cd5156ac848d098b502be0",
        path="Dataset",
        license="research",
        read=table(
            "Dataset/rusentiment_random_posts.csv",
            "Dataset/rusentiment_test.csv",
            text="text",
            label="label",
            names=lambda label: None if label == "skip" else label,
        ),
    ),
    DataSet(
        name="hate_portuguese",
        kind="no topics",
        language="pt",
        repository="paulafortuna/Portuguese-Hate-Speech-Dataset",
        commit="4208e1e22fca62a2ee7d3ed74316e13b4e67b731",
        path="2019-05-28_portuguese_hate_speech_binary_classification.csv",
        license="not stated",
        read=table(
            "2019-05-28_portuguese_hate_speech_binary_classification.csv",
            text="text",
            label="hatespeech_comb",
            names={"0": "no hate", "1": "hate"},
        ),
    ),
    DataSet(
        name="offensive_portuguese",
        kind="no topics",
        language="pt",
        repository="rogersdepelle/OffComBR",
        commit="261c6334f374966e952d0e83fee9253641860ac5",
        path="OffComBR2.arff",
        license="not stated",
        read=line_with_label("OffComBR2.arff", separator=",", names={"no": "inoffensive", "yes": "offensive"}),
    ),
    DataSet(
        name="fake_news_portuguese",
        kind="no topics",
        language="pt",
        repository="roneysco/Fake.br-Corpus",
        commit="780f5516c4ae070761632d98ac3368f3ded09d35",
        path="full_texts",
        license="research",
        read=folders("full_texts", label_of=fake_or_true),
        train_rows=800,
        test_rows=400,
    ),
    DataSet(
        name="financial_phrases",
        kind="no topics",
        language="en",
        repository="pkatwate/finBERT",
        commit="5ca56265657fe3fc2fd6c3576aa3933f61b7a5bc",
        path="Sentences_50Agree.txt",
        license="CC BY-NC-SA 3.0",
        read=line_with_label("Sentences_50Agree.txt", separator="@", label_is_last=True),
    ),
    DataSet(
        name="go_emotions",
        kind="no topics",
        language="en",
        repository="monologg/GoEmotions-pytorch",
        commit="b75f9d3a8b76bc1060687925b04ca98a1b8ea66b",
        path="data/original",
        license="Apache 2.0",
        read=table(
            "data/original/train.tsv",
            "data/original/test.tsv",
            text=0,
            label=1,
            names={str(number): name for number, name in enumerate(EMOTIONS)},
            separator="\t",
            quoted=False,
        ),
    ),
    DataSet(
        name="go_emotions_tree",
        kind="no topics, tree",
        language="en",
        repository="monologg/GoEmotions-pytorch",
        commit="b75f9d3a8b76bc1060687925b04ca98a1b8ea66b",
        path="data/original",
        license="Apache 2.0",
        read=table(
            "data/original/train.tsv",
            "data/original/test.tsv",
            text=0,
            label=1,
            names={str(number): emotion_tree(name) for number, name in enumerate(EMOTIONS)},
            separator="\t",
            quoted=False,
        ),
        note="the texts of go_emotions",
    ),
    DataSet(
        name="styles",
        kind="no topics",
        language="en",
        repository="martiansideofthemoon/style-transfer-paraphrase",
        commit="a7056305494ae6e713666da1592c2696775828ab",
        path="data_samples",
        license="MIT",
        read=file_of_each_label({f"data_samples/{file}.txt": name for file, name in STYLES.items()}),
    ),
    DataSet(
        name="covid_rumors",
        kind="no topics",
        language="en",
        repository="EMBEDDIA/covid19-fake-news",
        commit="23ad926dfcf851c533683db219492581cb6267a6",
        path="data/orig_split",
        license="research",
        read=table("data/orig_split/train.csv", "data/orig_split/valid.csv", text="tweet", label="label"),
    ),
    DataSet(
        name="reviews_indonesian",
        kind="no topics",
        language="id",
        repository="IndoNLP/indonlu",
        commit="ce728f6926a36174b9923dfe49d6a6839b6e9bb7",
        path="dataset/smsa_doc-sentiment-prosa",
        license="CC BY-SA 4.0",
        read=table(
            "dataset/smsa_doc-sentiment-prosa/train_preprocess.tsv",
            "dataset/smsa_doc-sentiment-prosa/valid_preprocess.tsv",
            text=0,
            label=1,
            separator="\t",
            quoted=False,
        ),
    ),
    DataSet(
        name="emotions_indonesian",
        kind="no topics",
        language="id",
        repository="IndoNLP/indonlu",
        commit="ce728f6926a36174b9923dfe49d6a6839b6e9bb7",
        path="dataset/emot_emotion-twitter",
        license="CC BY-SA 4.0",
        read=table(
            "dataset/emot_emotion-twitter/train_preprocess.csv",
            "dataset/emot_emotion-twitter/valid_preprocess.csv",
            text="tweet",
            label="label",
        ),
    ),
    DataSet(
        name="brown_genres",
        kind="no topics",
        language="en",
        repository="nltk/nltk_data",
        commit="5db857e6f7df11eabb5e5665836db9ec8df07e28",
        path="packages/corpora/brown.zip",
        license="research",
        read=brown,
    ),
    DataSet(
        name="pros_and_cons",
        kind="no topics",
        language="en",
        repository="nltk/nltk_data",
        commit="5db857e6f7df11eabb5e5665836db9ec8df07e28",
        path="packages/corpora/pros_cons.zip",
        license="not stated",
        read=pros_and_cons,
    ),
    DataSet(
        name="movie_reviews",
        kind="no topics",
        language="en",
        repository="nltk/nltk_data",
        commit="5db857e6f7df11eabb5e5665836db9ec8df07e28",
        path="packages/corpora/movie_reviews.zip",
        license="not stated",
        read=movie_reviews,
        train_rows=600,
        test_rows=300,
    ),
    DataSet(
        name="dialog_acts",
        kind="no topics",
        language="en",
        repository="nltk/nltk_data",
        commit="5db857e6f7df11eabb5e5665836db9ec8df07e28",
        path="packages/corpora/nps_chat.zip",
        license="research",
        read=dialog_acts,
    ),
    DataSet(
        name="senses",
        kind="no topics",
        language="en",
        repository="nltk/nltk_data",
        commit="5db857e6f7df11eabb5e5665836db9ec8df07e28",
        path="packages/corpora/senseval.zip",
        license="not stated",
        read=senses,
    ),
    DataSet(
        name="disaster_tweets",
        kind="no topics",
        language="en",
        repository="J-Dymond/COMP6208",
        commit="2043b33bbaef363cee4ef444ba74dc58a69154b9",
        path="nlp-getting-started/train.csv",
        license="not stated",
        read=table(
            "nlp-getting-started/train.csv",
            text="text",
            label="target",
            names={"0": "no disaster", "1": "disaster"},
        ),
    ),
    DataSet(
        name="citation_purpose",
        kind="no topics",
        language="en",
        repository="allenai/scibert",
        commit="06793f77d7278898159ed50da30d173cdc8fdea9",
        path="data/text_classification/sci-cite",
        license="Apache 2.0",
        read=jsonl(
            "data/text_classification/sci-cite/train.txt",
            "data/text_classification/sci-cite/test.txt",
            text="text",
            label="label",
        ),
    ),
    DataSet(
        name="protein_relations",
        kind="no topics",
        language="en",
        repository="allenai/scibert",
        commit="06793f77d7278898159ed50da30d173cdc8fdea9",
        path="data/text_classification/chemprot",
        license="research",
        read=jsonl(
            "data/text_classification/chemprot/train.txt",
            "data/text_classification/chemprot/test.txt",
            text="text",
            label="label",
        ),
    ),
    DataSet(
        name="reviews_arabic",
        kind="no topics",
        language="ar",
        repository="hadyelsahar/large-arabic-sentiment-analysis-resouces",
        commit="2a99dc508c0203eb8ef733fa29228fba2aa61682",
        path="datasets/PROD.csv",
        license="not stated",
        read=table(
            "datasets/PROD.csv",
            text="text",
            label="polarity",
            names={"-1": "negative", "0": "neutral", "1": "positive"},
        ),
    ),
]
