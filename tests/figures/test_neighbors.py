"""docs/results/neighbors.md."""

import numpy as np

from experiments.protocols.decoupled import PARTS
from experiments.report.paper_results import DECOUPLED, RETRIEVAL_VECTORS
from experiments.tasks.known_tasks import task_metric

from .page import Page
from .records import chosen, content, mean, percent, records, summarized

ENGLISH, CHINESE = ("CoLA", "SST-2", "MRPC", "QNLI"), ("TNEWS", "IFLYTEK", "OCNLI", "AFQMC", "CSL", "WSC")
BASE, TL, DECOUPLE = "base", "triplet_loss", "decoupled"


def part_summary(cell, part):
    """Of the classifier, the neighbors or the mixture, in the metric of the task."""
    return cell.metrics[f"{PARTS[part]}{task_metric(cell.task)}"]


def cells(protocol):
    found = [cell for name in ("english", "chinese") for cell in summarized(f"neighbors/{name}")]
    return [cell for cell in found if cell.protocol == protocol]


def scores(neighbors):
    """By task and variant: classifier, neighbors and mixture, in percent of the task's metric."""
    return {
        (cell.task, cell.settings["variant"]): [
            100 * part_summary(cell, part).mean for part in ("classifier", "knn", "mixture")
        ]
        for cell in cells("decoupled")
        if cell.settings["neighbors"] == neighbors
    }


def gaps(found, tasks):
    """What the mixture has above the better of its parts."""
    return [round(mixed - max(parts), 9) for (task, _), (*parts, mixed) in found.items() if task in tasks]


def sweep():
    """By task: neighbors alone by k, and by T."""
    by_k, by_t = {}, {}
    for cell in cells("neighbors_sweep"):
        value = 100 * part_summary(cell, "knn").mean
        if cell.settings["temperature"] == 10:
            by_k.setdefault(cell.task, {})[cell.settings["k"]] = value
        if cell.settings["k"] == 64:
            by_t.setdefault(cell.task, {})[cell.settings["temperature"]] = value
    return by_k, by_t


def test_figures():
    page = Page("docs/results/neighbors.md")
    calibrated, fixed, oracle = scores("calibrated"), scores("fixed"), scores("oracle")
    page.says(
        "(at best {} of 100, {} by the oracle)",
        *(max(s["CoLA", v][2] for v in (BASE, TL, DECOUPLE)) for s in (fixed, oracle)),
    )
    page.says("the larger class ({} and {} %)", calibrated["AFQMC", TL][0], calibrated["WSC", TL][0])
    for text, task in (
        ("SST-2 {}, {} and {} % (base, TL, TL + D)", "SST-2"),
        ("QNLI {}, {}, {}, TNEWS", "QNLI"),
        ("TNEWS {}, {}, {}, IFLYTEK", "TNEWS"),
        ("IFLYTEK {}, {}, {}. It is a collapse", "IFLYTEK"),
    ):
        page.says(text, *(calibrated[task, variant][0] for variant in (BASE, TL, DECOUPLE)))
    collapsed = {
        task
        for name, tasks in (("english", ENGLISH), ("chinese", CHINESE))
        for task in tasks
        for rows in [chosen(records(f"neighbors/{name}"), protocol="decoupled", task=task, variant=TL)]
        if all(row["metrics"]["classifier_matthews_correlation"] == 0 for row in rows)
    }
    assert collapsed == {"CoLA", "SST-2", "MRPC", "QNLI", "AFQMC", "WSC"}
    paper = {(row, task): DECOUPLED.of(row, task)["task_metric"] for row in DECOUPLED.rows for task in DECOUPLED.tasks}
    costs = [paper["base", task] - paper["TL", task] for task in (*ENGLISH, *CHINESE)]
    page.says("TL costs at most {} points, and gains {} on WSC", max(costs), -min(costs))
    best = [
        paper[f"{row}, KNN best", task] - max(paper[row, task], paper[f"{row}, KNN", task])
        for row in ("base", "TL", "TL + D")
        for task in DECOUPLED.tasks
    ]
    page.says("are {} in the mean of {} cells, {} to {}.", np.mean(best), len(best), min(best), max(best))

    english, chinese = gaps(calibrated, ENGLISH), gaps(calibrated, CHINESE)
    page.says("in {} of {} cells: {} points below", sum(gap >= 0 for gap in english + chinese), 30, -np.mean(english))
    page.says("English tasks ({} cells, at worst {}), {} above", 12, -min(english), np.mean(chinese))
    page.says("Chinese ({} cells, at worst {} below)", 18, -min(chinese))
    left = {key: value for key, value in calibrated.items() if key[1] != TL}
    left = gaps(left, {task for task, _ in left} - {"CoLA", "AFQMC", "WSC"})
    page.says("{} of these cells say little", 30 - len(left))
    page.says("In the {} that remain it is {}, and {} above", len(left), sum(gap >= 0 for gap in left), np.mean(left))
    without_cola = np.mean(gaps(oracle, set(ENGLISH) - {"CoLA"}))
    page.says("{} above the better part in the mean of the Chinese cells", np.mean(gaps(oracle, CHINESE)))
    page.says("{} of the English without CoLA ({} with it)", without_cola, np.mean(gaps(oracle, ENGLISH)))
    page.says("is worth {} to {} points by itself", without_cola, np.mean(gaps(oracle, CHINESE)))
    of_tl = [{key: value for key, value in fixed.items() if (key[1] == TL) == tl} for tl in (False, True)]
    costs = [-np.mean(gaps(found, tasks)) for found in of_tl for tasks in (ENGLISH, CHINESE)]
    page.says("is {} (English) and {} points (Chinese) below the better part. With TL", *costs[:2])
    page.says("collapsed, it is {} and {} below", *costs[2:])
    gains = {task: calibrated[task, DECOUPLE][0] - calibrated[task, BASE][0] for task in (*ENGLISH, *CHINESE)}
    for task, gain in gains.items():
        page.says(f"{{}} ({task})", gain)
    spread = [part_summary(c, "classifier").std for c in cells("decoupled") if c.settings["variant"] != TL]
    page.says("standard deviations over the seeds of up to {}", 100 * max(spread))
    gains = [paper["TL + D", task] - paper["base", task] for task in DECOUPLED.tasks if task != "WSC"]
    page.says(
        "The paper has {} to {}, and {} on WSC", min(gains), max(gains), paper["TL + D", "WSC"] - paper["base", "WSC"]
    )

    by_k, by_t = sweep()
    change = {task: max(abs(by_t[task][t] - by_t[task][10]) for t in by_t[task] if t >= 0.1) for task in by_t}
    page.says("stays within {} points from T", max(change[task] for task in ENGLISH))
    page.says("within {} on the Chinese", max(change[task] for task in CHINESE))
    page.says("by up to {} points at 0.001", max(abs(by_t[task][0.001] - by_t[task][10]) for task in by_t))
    page.without_record("from T = 0.1", "Only below 0.1", "at 0.001")
    behind = {task: max(values.values()) - values[64] for task, values in by_k.items()}
    page.says("at most {} points below the best, as in the paper", sorted(behind.values())[6])
    page.says("hardly learned, it is {}, {} and {} below", *(behind[t] for t in ("CoLA", "IFLYTEK", "WSC")))

    full = {name: chosen(records(f"neighbors/{name}"), protocol="full") for name in ("english", "chinese")}
    page.says(
        "TF-IDF has {} % on TNEWS and {} %",
        *(mean(full["chinese"], "accuracy", system="tfidf", task=t) for t in CHINESE[:2]),
    )
    page.says("at best {} (TL + D, mixed) and", max(max(calibrated["TNEWS", v]) for v in (BASE, TL, DECOUPLE)))
    page.says("and {} (TL, neighbors alone)", max(max(calibrated["IFLYTEK", v]) for v in (BASE, TL, DECOUPLE)))
    page.says(
        "the same encoder frozen {} and {}",
        *(mean(full["chinese"], "accuracy", system="chinese", task=t) for t in CHINESE[:2]),
    )
    for text, task in (("(SST-2 {} and {}", "SST-2"), (", QNLI {} and {})", "QNLI")):
        page.says(text, calibrated[task, DECOUPLE][2], mean(full["english"], "accuracy", system="tfidf", task=task))
    minutes = [sum(row["seconds"] for row in records(f"neighbors/{name}")) / 60 for name in ("english", "chinese")]
    page.says("took {} and {} minutes", *minutes)
    page.says(
        "for {} and {} records",
        *(len(content(f"neighbors/{n}/results.json")["records"]) for n in ("english", "chinese")),
    )
    first_token(page)
    margins(page, base=calibrated["SST-2", BASE][0])
    page.check(at_least=80)


def margins(page, base):
    """The classifier and its neighbors by the margin of the triplet loss."""
    names = {"0.01": "0.01", "english": "0.1, the default", "1": "1", "10": "10"}
    found, clusters, spreads = {}, [], []
    for folder, name in names.items():
        rows = records(f"neighbors/{'margins/' * (folder != 'english')}{folder}")
        rows = chosen(rows, protocol="decoupled", task="SST-2", neighbors="calibrated")
        shown = (
            (TL, ("classifier_accuracy", "knn_accuracy")),
            (DECOUPLE, ("classifier_accuracy", "knn_accuracy", "accuracy")),
        )
        found[name] = [mean(rows, metric, variant=variant) for variant, metrics in shown for metric in metrics]
        page.has_rows([(name, *(f"{value:.1f}" for value in found[name]))])
        spreads.append(percent(rows, "classifier_accuracy", variant=DECOUPLE).std(ddof=1))
        if folder != "english":
            clusters.append([mean(rows, metric, variant=DECOUPLE) for metric in ("silhouette", "purity")])
    page.says("TL costs {} points in place of {}.", *(base - found[name][0] for name in ("10", names["english"])))
    page.says("those of base ({}), whose classifier has {}.", mean(rows, "knn_accuracy", variant=BASE), base)
    classifiers = [values[2] for values in found.values()]
    page.says("its classifier has {} to {}, and", min(classifiers), max(classifiers))
    page.says("seeds differ by up to {} (one", max(spreads))
    page.says("(silhouette {}, {} and {} at 0.01, 1 and 10)", *(one[0] / 100 for one in clusters))
    page.says("{}, {} and {} % of the 64 have", *(one[1] for one in clusters))
    page.without_record(
        "At our margin of 0.1,",
        "at 0.01, 1 and 10",
        "So at a margin of 0.1 the loss",
        "up to a margin of 0.1,",
        "[0.01](neighbors/margins/0.01/results.md)",
    )


def first_token(page):
    """The first token, by the retrieval vector, and clusters."""
    rows, tasks = records("neighbors/first_token"), ("SST-2", "QNLI")

    def by_task(metric, **about):
        return [mean(rows, metric, neighbors="calibrated", task=task, **about) for task in tasks]

    for name, variant in (("base", BASE), ("TL", TL), ("TL + D", DECOUPLE)):
        values = by_task("classifier_accuracy", protocol="decoupled", variant=variant)
        page.has_rows([(name, *(f"{value:.1f}" for value in values))])
    names = {"cls": "TL + D, mixed, neighbors by the first token", "mean": "by the mean", "max": "by the maximum"}
    mixed = {}
    for pooling, name in names.items():
        mixed[pooling] = by_task("accuracy", protocol="retrieval_vectors", retrieval_pooling=pooling)
        page.has_rows([(name, *(f"{value:.1f}" for value in mixed[pooling]))])
    paper = {
        name: [RETRIEVAL_VECTORS.of(name, task)["task_metric"] for task in tasks] for name in RETRIEVAL_VECTORS.rows
    }
    costs, theirs = (
        [max(first, second) - largest for first, second, largest in zip(*found.values(), strict=True)]
        for found in (mixed, paper)
    )
    page.says("where it costs {} points on both tasks", np.mean(theirs))
    page.says("Here it costs {}, within the noise, and {}:", *costs)
    classifiers = [
        by_task("classifier_accuracy", protocol="retrieval_vectors", retrieval_pooling=pooling)[1]
        for pooling in ("max", "cls")
    ]
    page.says("itself has {} % in place of {}", *classifiers)
    papers = [
        mean(records("neighbors/table_3"), "classifier_accuracy", neighbors="calibrated", variant=variant)
        for variant in (BASE, TL, DECOUPLE)
    ]
    page.says("has {} % on SST-2 (base), {} (TL) and {} (TL + D)", *papers)
    cola = {
        (variant, part): mean(
            records("neighbors/cola"), f"{part}matthews_correlation", neighbors="calibrated", variant=variant
        )
        for variant in (BASE, TL, DECOUPLE)
        for part in PARTS.values()
    }
    page.says(
        "chosen too, is {} (base), {} (TL) and {} (TL + D)", *(cola[v, "classifier_"] for v in (BASE, TL, DECOUPLE))
    )
    page.says(
        "Mixing in neighbors adds {} to base and {} to TL + D",
        *(cola[v, ""] - cola[v, "classifier_"] for v in (BASE, DECOUPLE)),
    )
    page.says("base's neighbors alone have {}.", cola[BASE, "knn_"])
    purity = [by_task("purity", protocol="decoupled", variant=variant) for variant in (DECOUPLE, BASE)]
    page.says("{} % have its label on SST-2 and {} % on QNLI", *purity[0])
    page.says("(base) {} and {} %.", *purity[1])
    silhouette = [
        n
        for variant in (DECOUPLE, BASE)
        for task in tasks
        for values in [percent(rows, "silhouette", protocol="decoupled", variant=variant, task=task)]
        for n in (values.mean() / 100, values.std(ddof=1) / 100)
    ]
    page.says("of the classes is {} ± {} and {} ± {}, and {} ± {} and {} ± {} with base", *silhouette)
