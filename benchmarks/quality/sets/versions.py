"""Sets with versions of one text under different labels."""

from __future__ import annotations

import csv
import json

from benchmarks.quality.sets.readers import Read, file_of_each_label, folders, table
from benchmarks.quality.sets.records import Clone, DataSet, Row, Splits

ONESTOP = "Texts-SeparatedByReadingLevel"
LEVELS = {"ele": "elementary", "int": "intermediate", "adv": "advanced"}


def reading_level(path: str) -> str | None:
    """The reading level of an article, which ends its name; a folder within a folder holds copies."""
    is_article = path.endswith(".txt") and path.count("/") == 2
    return LEVELS.get(path.removesuffix(".txt")[-3:]) if is_article else None


def article(path: str) -> str:
    """The name of an article, which its three levels have in common."""
    return path.split("/")[-1].removesuffix(".txt")[:-3].strip(" -").lower()


def edited_inference(clone: Clone) -> Splits:
    """Read pairs of which one sentence was edited to change the label; an original and its edits are a group."""

    def read_part(part: str) -> list[Row]:
        rows = []
        for number, line in enumerate(clone.lines_of(f"NLI/all_combined/{part}.tsv")[1:]):
            fields = line.split("\t")
            # An original is followed by its four revisions.
            rows.append(Row(text=fields[0], text_pair=fields[1], label=fields[2], group=str(number // 5)))
        return rows

    return Splits(train=read_part("train"), test=read_part("test"))


def warrants(clone: Clone) -> Splits:
    """Read the two warrants of each argument, of which one supports the claim."""

    def read_part(path: str) -> list[Row]:
        lines = [line.split("\t") for line in clone.lines_of(path)]
        columns = lines[0]
        rows = []
        for line in lines[1:]:
            fields = dict(zip(columns, line, strict=True))
            for number in ("0", "1"):
                is_right = fields["correctLabelW0orW1"] == number
                rows.append(
                    Row(
                        text=f"{fields['reason']} {fields['claim']}",
                        text_pair=fields[f"warrant{number}"],
                        label="supports the claim" if is_right else "opposes the claim",
                        group=fields["#id"],
                    )
                )
        return rows

    folder = "experiments/src/main/python/data"
    return Splits(train=read_part(f"{folder}/train.tsv"), test=read_part(f"{folder}/test.tsv"))


def detoxified(train: str, test: str | None, toxic: str, neutral: str) -> Read:
    """Read tsv with a toxic comment in one column and a neutral version of it in another."""

    def read_rows(clone: Clone, path: str) -> list[Row]:
        rows = []
        for number, line in enumerate(csv.DictReader(clone.lines_of(path), delimiter="\t", quoting=csv.QUOTE_NONE)):
            rows.append(Row(text=line[toxic] or "", label="toxic", group=str(number)))
            rows.append(Row(text=line[neutral] or "", label="neutral", group=str(number)))
        return rows

    def read(clone: Clone) -> Splits:
        return Splits(train=read_rows(clone, train), test=None if test is None else read_rows(clone, test))

    return read


def minimal_pairs(clone: Clone) -> Splits:
    """Read pairs of a grammatical sentence and one that differs from it in one point, of all phenomena of BLiMP."""
    rows = []
    for path in clone.paths("data"):
        if path.endswith(".jsonl"):
            for line in clone.lines_of(path):
                item = json.loads(line)
                group = f"{item['UID']} {item['pairID']}"
                rows.append(Row(text=item["sentence_good"], label="grammatical", group=group))
                rows.append(Row(text=item["sentence_bad"], label="ungrammatical", group=group))
    return Splits(train=rows)


def terms_in_plain_words(clone: Clone) -> Splits:
    """Read clauses of terms of service and their summaries."""
    rows = []
    for item in json.loads(clone.text_of("all_v1.json")).values():
        clause = item["original_text"]
        rows.append(Row(text=clause, label="clause", group=clause))
        rows.append(Row(text=item["reference_summary"], label="summary", group=clause))
    return Splits(train=rows)


def bible(path: str) -> str:
    """The name of the translation of a chapter."""
    return path.split("/")[2]


def chapter(path: str) -> str:
    """The name of a chapter, which its translations have in common."""
    return path.split("/")[-1]


VERSIONS = [
    DataSet(
        name="onestop_english",
        kind="no topics, versions",
        language="en",
        repository="nishkalavallabhi/OneStopEnglishCorpus",
        commit="37f8db3945cd2f3cc0caafe45674147b224349be",
        path="Texts-SeparatedByReadingLevel",
        license="CC BY-SA 4.0",
        read=folders(ONESTOP, label_of=reading_level, group_of=article),
    ),
    DataSet(
        name="edited_reviews",
        kind="no topics, versions",
        language="en",
        repository="acmi-lab/counterfactually-augmented-data",
        commit="6f232a1d2a11462a30ce08fb4825b734ab30828e",
        path="sentiment/combined/paired",
        license="Apache 2.0",
        read=table(
            "sentiment/combined/paired/train_paired.tsv",
            "sentiment/combined/paired/test_paired.tsv",
            text="Text",
            label="Sentiment",
            group="batch_id",
            separator="\t",
        ),
    ),
    DataSet(
        name="edited_inference",
        kind="no topics, versions",
        language="en",
        repository="acmi-lab/counterfactually-augmented-data",
        commit="6f232a1d2a11462a30ce08fb4825b734ab30828e",
        path="NLI/all_combined",
        license="Apache 2.0",
        read=edited_inference,
    ),
    DataSet(
        name="shakespeare",
        kind="no topics, versions",
        language="en",
        repository="harsh19/Shakespearizing-Modern-English",
        commit="e2669eadf12b59573847ac725ce6ce685eff528d",
        path="data",
        license="not stated",
        read=file_of_each_label(
            {"data/train.original.nltktok": "original", "data/train.modern.nltktok": "modern"},
            {"data/test.original.nltktok": "original", "data/test.modern.nltktok": "modern"},
            parallel=True,
        ),
    ),
    DataSet(
        name="asset",
        kind="no topics, versions",
        language="en",
        repository="facebookresearch/asset",
        commit="9d659040d0d8942dbc4cd65cf357563b43fd9ab4",
        path="dataset",
        license="CC BY-NC 4.0",
        read=file_of_each_label(
            {"dataset/asset.valid.orig": "original", "dataset/asset.valid.simp.0": "simplified"},
            {"dataset/asset.test.orig": "original", "dataset/asset.test.simp.0": "simplified"},
            parallel=True,
        ),
    ),
    DataSet(
        name="warrants",
        kind="no topics, versions",
        language="en",
        repository="UKPLab/argument-reasoning-comprehension-task",
        commit="929f5847487e28036e60803f72e26a82c638db43",
        path="experiments/src/main/python/data",
        license="CC BY 4.0",
        read=warrants,
    ),
    DataSet(
        name="wiki_neutrality",
        kind="no topics, versions",
        language="en",
        repository="rpryzant/neutralizing-bias",
        commit="b7b42e71d211b4f9a757a5e8d9aa98236fb733ec",
        path="baselines/test_data",
        license="MIT",
        read=file_of_each_label(
            {"baselines/test_data/pre.train": "biased", "baselines/test_data/post.train": "neutral"}, parallel=True
        ),
    ),
    DataSet(
        name="detoxified",
        kind="no topics, versions",
        language="en",
        repository="s-nlp/paradetox",
        commit="d97b17d0813539cf05c74f9cdb5e66372704ca57",
        path="paradetox/paradetox.tsv",
        license="CC BY 4.0",
        read=detoxified("paradetox/paradetox.tsv", None, toxic="toxic", neutral="neutral1"),
    ),
    DataSet(
        name="detoxified_russian",
        kind="no topics, versions",
        language="ru",
        repository="s-nlp/russe_detox_2022",
        commit="a2f79da9f0c11de5c6c0f55a62899db1eff426ff",
        path="data/input",
        license="not stated",
        read=detoxified(
            "data/input/train.tsv", "data/input/dev.tsv", toxic="toxic_comment", neutral="neutral_comment1"
        ),
    ),
    DataSet(
        name="corrected_english",
        kind="no topics, versions",
        language="en",
        repository="keisks/jfleg",
        commit="ee06ff806a208aba815ac45313f4e750a48330a5",
        path="dev, test",
        license="CC BY-NC-SA 4.0",
        read=file_of_each_label(
            {"dev/dev.src": "by a learner", "dev/dev.ref0": "corrected"},
            {"test/test.src": "by a learner", "test/test.ref0": "corrected"},
            parallel=True,
        ),
    ),
    DataSet(
        name="minimal_pairs",
        kind="no topics, versions",
        language="en",
        repository="alexwarstadt/blimp",
        commit="3e56b06fcabca9b30822fc66435fca6b1aa40bb1",
        path="data",
        license="CC BY 4.0",
        read=minimal_pairs,
    ),
    DataSet(
        name="medical_plain_language",
        kind="no topics, versions",
        language="en",
        repository="AshOlogn/Paragraph-level-Simplification-of-Medical-Texts",
        commit="edf6504ea28b2458ec6b4c172482ad15387aeeef",
        path="data/data-1024",
        license="research",
        read=file_of_each_label(
            {"data/data-1024/val.source": "abstract", "data/data-1024/val.target": "plain language"},
            {"data/data-1024/test.source": "abstract", "data/data-1024/test.target": "plain language"},
            parallel=True,
        ),
    ),
    DataSet(
        name="terms_plain_language",
        kind="no topics, versions",
        language="en",
        repository="lauramanor/legal_summarization",
        commit="9d203292eb188e13523366490863b0cc14c89017",
        path="all_v1.json",
        license="not stated",
        read=terms_in_plain_words,
    ),
    DataSet(
        name="bibles",
        kind="no topics, versions",
        language="en",
        repository="keithecarlson/StyleTransferBibleData",
        commit="1c6c8eec242d496c40531d740cd0d57f5f195d05",
        path="Data/Bibles",
        license="public domain",
        read=folders("Data/Bibles", label_of=bible, group_of=chapter),
        train_rows=600,
        test_rows=300,
    ),
]
