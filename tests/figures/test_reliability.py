"""docs/results/reliability.md."""

import re

import numpy as np
from scipy.stats import binomtest

from docsplit_hf.evaluation.results import summarize

from .page import Page
from .records import RESULTS, chosen, content

AUDIT = r"## Audit\n.*?(?=\n## )"
NAMES = {"bbc_news": "BBC", "20news": "20News, split by date", "arxiv_abstracts": "arXiv", "fakenews_small": "FakeNews"}
NOVELTY = {**NAMES, "20news": "20News, by date"}


def test_figures():
    page = Page("docs/results/reliability.md", without=AUDIT)
    rows = content("reliability/rejection.jsonl")
    for task, name in NAMES.items():
        for per_label in (20, 0):
            page.has(promises(rows, name, task=task, per_label=per_label, mixed=False, held_out=0))
            if task == "20news":
                page.has(
                    promises(rows, "20News, split at random", task=task, per_label=per_label, mixed=True, held_out=0)
                )
    page.has(
        promises(
            rows,
            "the same, fitted on 500 texts of the later time",
            task="20news",
            per_label=0,
            mixed=False,
            held_out=500,
        )
    )
    news = chosen(rows, kind="promises", task="20news", per_label=0, mixed=False, held_out=0)
    page.says(
        "{} % of the answers are right in folds, and {} %",
        *(100 * np.mean([r[n] for r in news]) for n in ("accuracy_in_folds", "accuracy")),
    )
    for task, per_label, documents in (
        *(("20news", n, documents) for n in (0, 20) for documents in ("all", "known")),
        *((task, 0, "all") for task in ("bbc_news", "arxiv_abstracts", "fakenews_small")),
        ("bbc_news", 20, "all"),
    ):
        page.has(novelty(rows, task, per_label, documents))
    unequal(page)
    foreign_texts(page)
    suggestions(page)
    page.has_rows([cells[1:] for cells in table_of("watching")])  # its figures have no record but that table
    page.without_record(
        "in each draw it lies within",
        "95 % interval",
        "three draws of 80 % of them",
        "1 %: answered, wrong | 5 %: answered, wrong | 10 %",
        "promise 5 %",
        "BBC, 1 % cannot be promised",
    )
    page.check(at_least=200)


def unequal(page):
    """The section on Debian's packages."""
    rows = content("reliability/unequal/rejection.jsonl")
    assert len(rows) == 10 and {row["texts"] for row in rows} == {3000}
    found, measured, in_folds = (
        100 * np.mean([row[name] for row in rows]) for name in ("accuracy", "measured", "accuracy_in_folds")
    )
    page.says("| accuracy found | {} % |", found)
    page.says("| measured by `fit()` | {} %, {} points more |", measured, measured - found)
    page.says("counted alike, as before | {} %, {} points more |", in_folds, in_folds - found)
    held = sum(row["interval"][0] <= row["accuracy"] <= row["interval"][1] for row in rows)
    page.says("that `fit()` prints | {} of 10 draws |", held)
    page.says(
        "equal ones, estimated ones | {} %, {} % |",
        *(100 * np.mean([row[name] for row in rows]) for name in ("equal_off", "proportions_off")),
    )
    answered = {error: [row["promises"][error]["answers"] for row in rows] for error in ("0.05", "0.1")}
    wrong = {error: [row["promises"][error]["wrong"] for row in rows] for error in ("0.05", "0.1")}
    kept = {
        error: sum(w <= float(error) * a for w, a in zip(wrong[error], answered[error], strict=True))
        for error in answered
    }
    page.says("| `reject=0.05`: answered, kept | {} %, {} of 10 draws |", np.sum(answered["0.05"]) / 300, kept["0.05"])
    page.says(
        "| `reject=0.1`: answered, of these wrong, kept | {} %, {} %, {} of 10 draws |",
        np.sum(answered["0.1"]) / 300,
        100 * np.sum(wrong["0.1"]) / np.sum(answered["0.1"]),
        kept["0.1"],
    )
    assert answered["0.1"].count(0) == 2  # as the page says
    page.without_record("the largest has 22 % and the smallest 4 %", "`fit()` prints", "95 % interval that `fit()`")
    page.without_record("nothing is answered at 10 %")


def foreign_texts(page):
    """The section on texts of labels without examples."""
    rows = content("reliability/foreign/rejection.jsonl")
    encoders = ("all-MiniLM-L6-v2", "docsplit-small-en")
    for encoder in encoders:
        for documents, limits in (("none", ("off", "0.05")), ("all", ("off", "as fitted"))):
            group = chosen(rows, encoder=encoder, documents=documents)
            for limit in limits:
                page.has(foreign_row(group, encoder, documents, limit))
    page.says(
        "{} with documents and {} without, with the encoder that ships {} and {}.",
        *(
            np.mean([row["auroc"] for row in chosen(rows, encoder=encoder, documents=documents)])
            for encoder in encoders
            for documents in ("all", "none")
        ),
    )
    lost = [100 * row["answered"]["0.05 as fitted"]["lost"] for row in chosen(rows, documents="all")]
    assert sum(share > 5 for share in lost) == 1 and len(lost) == 10
    page.says("known texts were lost: {} %", max(lost))
    page.without_record("In one of ten draws more than 5 %")
    found = [100 * row["found_foreign"] for row in chosen(rows, documents="all")]
    page.says("`fit()` estimated that {} to {} % of the documents", min(found), max(found))


def foreign_row(group, encoder, documents, limit):
    """The mean, the lowest and the highest share that gets an answer."""
    found = {
        name: np.array([100 * row["answered"][f"0.05 {limit}"][name] for row in group])
        for name in ("known", "lost", "foreign", "out_of_scope")
    }
    cells = [f"{of.mean():.1f} % ({of.min():.1f} to {of.max():.1f})" for of in found.values()]
    cells[1] = f"{found['lost'].mean():.1f} %"
    names = (encoder, "none" if documents == "none" else "of all intents", "False" if limit == "off" else "0.05")
    return f"| {' | '.join((*names, *cells))} |"


def test_the_figure_stands_beside_the_promise():
    """docs/reliability.md says how many foreign texts get an answer."""
    page = Page("docs/reliability.md")
    rows = content("reliability/foreign/rejection.jsonl")

    def shares(encoder, documents, limit, name):
        return [
            100 * row["answered"][f"0.05 {limit}"][name] for row in chosen(rows, encoder=encoder, documents=documents)
        ]

    def spread(values):
        return np.mean(values), min(values), max(values)

    mini, ours = "all-MiniLM-L6-v2", "docsplit-small-en"
    page.says(
        "of five draws {} % of the texts of the other 120 ({} to {} %)", *spread(shares(mini, "none", "off", "foreign"))
    )
    page.says("and {} % of the out-of-scope texts ({} to {} %)", *spread(shares(mini, "none", "off", "out_of_scope")))
    page.says(
        "{} % of the texts of unknown intents get an answer ({} to {} %)",
        *spread(shares(mini, "all", "as fitted", "foreign")),
    )
    page.says(
        "and {} % of those out of scope, and {} % of the known ones are lost",
        *(np.mean(shares(mini, "all", "as fitted", name)) for name in ("out_of_scope", "lost")),
    )
    page.says(
        "with the encoder that ships {} and {} % ([figures]",
        *(np.mean(shares(ours, "all", "as fitted", name)) for name in ("foreign", "out_of_scope")),
    )
    assert not page.wrong, page.wrong


def promises(rows, name, **fields):
    """A row of the table, and whether a promise is broken."""
    group = chosen(rows, kind="promises", **fields)
    cells, holds, below = [], 0, 0
    for error in (0.01, 0.05, 0.1):
        found = [row["promises"][str(error)] for row in group]
        answers, wrong = (sum(one[key] for one in found) for key in ("answers", "wrong"))
        tests = [binomtest(one["wrong"], one["answers"], error) for one in found if one["answers"]]
        none = len(found) - len(tests)
        kept = [
            sum(test.proportion_ci(0.95).low <= error for test in tests) + none,
            sum(test.statistic <= error for test in tests) + none,
        ]
        holds, below = holds + kept[0], below + kept[1]
        share = f"{100 * answers / sum(row['texts'] for row in group):.0f} %"
        text = f"{share}, {100 * wrong / answers:.1f} %" if answers else share
        cells.append(f"**{text}**" if kept[0] < len(found) else text)
    count = 3 * len(group)
    text = f"{below} of {count}" + (f", within the interval {holds} of {count}" if below < count else "")
    return f"| {name} | {fields['per_label'] or 'all'} | {' | '.join(cells)} | {text} |"


def novelty(rows, task, per_label, documents):
    group = chosen(rows, kind="novelty", task=task, per_label=per_label, documents=documents, mixed=False)
    values = {name: np.array([row[name] for row in group]) for name in ("novelty", "max_probability", "mahalanobis")}
    best = max(values, key=lambda name: values[name].mean())
    cells = []
    for name, of in values.items():
        text = f"{of.mean():.3f} ± {1.96 * of.std(ddof=1) / np.sqrt(len(of)):.3f}"
        cells.append(f"**{text}**" if name == best else text)
    return f"| {NOVELTY[task]} | {per_label or 'all'} | {documents} classes | {' | '.join(cells)} |"


def table_of(name):
    """The rows of a report, as they are written."""
    lines = (RESULTS / "reliability" / f"{name}.md").read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip().replace("%", " %") for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    return rows[2:]


def suggestions(page):
    """A table of suggestions.md, shortened; its report needs small-text, so its own file stands for the records."""
    found = {(row[0], row[1]): row for row in table_of("suggestions")}
    for task, name in (
        ("20news", "20News, 220"),
        ("bbc_news", "BBC, 85"),
        ("arxiv_abstracts", "arXiv, 211"),
        ("fakenews_small", "FakeNews, 83"),
    ):
        share, gain = found[task, "suggest"][5], found[task, "suggest"][6]
        share = re.sub(r"\((\d+) % to (\d+) %\)", r"(\1 to \2)", share)
        cells = [
            f"{share}, {gain}"
            if task == "fakenews_small"
            else "**{}** {}, **{}** {}".format(
                *(share + " " + gain).replace(" % (", " %\t(").replace(") ", ")\t").replace(" (+", "\t(+").split("\t")
            )
        ]
        for strategy in ("breaking ties", "embedding k-means"):
            _, _, _, _, _, share, gain = found[task, strategy]
            share = "more than all" if share.startswith("more") else share.split(" (")[0]
            cells.append(f"{share}, {gain.split(' (')[0]}")
        page.has(f"| {name} labels | {' | '.join(cells)} |")
    half = re.sub(r"\((\d+) % to (\d+) %\)", r"(\1 to \2)", found["20news", "suggest"][3])
    page.has(f"it takes {half}")


def test_macro_f1_of_suggestions():
    """What of suggestions.md is a mean of the records."""
    rows = content("reliability/suggestions.jsonl")
    for task, strategy, half, _, end, *_ in table_of("suggestions"):
        curves = [row["curve"] for row in chosen(rows, task=task, strategy=strategy)]
        for text in (half, end):
            value, labels = text.split(" at ")
            points = [point["macro_f1"] for curve in curves for point in curve if point["labels"] == int(labels)]
            assert abs(100 * np.mean(points) - float(value)) <= 0.05 + 1e-9


def test_audit():
    """Each mean with its interval is of a group of records, whichever it is."""
    text = re.search(AUDIT, (RESULTS / "reliability.md").read_text(encoding="utf-8"), flags=re.DOTALL)[0]
    groups = {}
    for row in content("reliability/audit.jsonl"):
        for metric, value in row.items():
            if isinstance(value, float):
                groups.setdefault((row["task"], row["part"], row["method"], metric), []).append(100 * value)
    known = np.array([(found.mean, found.interval) for found in map(summarize, groups.values())])
    shown = re.findall(r"(\d+\.\d+) ± (\d+\.\d+)", text)
    assert len(shown) > 20
    for numbers in shown:  # rounded from audit.md, which has a digit more
        assert (np.abs(known - np.array(numbers, float)) <= 0.055 + 1e-9).all(1).any(), numbers
