"""The evaluation results of a card's metadata, which the Hub calls model-index."""

from __future__ import annotations

from collections.abc import Sequence

from huggingface_hub import EvalResult

from docsplit_hf.experiments.report.summary import Cell

TASKS = {
    "20News": "20 Newsgroups",
    "BBCNews": "BBC News",
    "arXiv": "arXiv abstracts",
    "FakeNews": "FakeNews",
    "NYT": "New York Times",
    "AAN": "ACL Anthology Network",
}
METRICS = {
    "accuracy": ("accuracy", "Accuracy"),
    "macro_f1": ("f1", "Macro F1"),
    "cosine_accuracy": ("accuracy", "Accuracy by a threshold on the cosine"),
}


def evaluation_results(
    cells: Sequence[Cell], source_name: str | None = None, source_url: str | None = None
) -> list[EvalResult]:
    """What the Hub shows of the measurements of one system, in percent with two digits.

    Args:
        cells: The measurements. Those of one task must not differ in anything but protocol and settings.
        source_name: Who measured it, if it was not the author of the card.
        source_url: Where they say so.

    Returns:
        One result for each task, protocol and metric, those of a task together, as the Hub groups them.

    Example:

        >>> from docsplit_hf.experiments.report.summary import summarize
        >>> cell = Cell("A", "20News", "few_shot", {"shots": 5}, {"macro_f1": summarize([0.5, 0.7])}, (0, 1))
        >>> [result] = evaluation_results([cell])
        >>> result.metric_value, result.metric_type, result.metric_name
        (60.0, 'f1', 'Macro F1, 5 examples per class, mean of 2 draws')
    """
    results = []
    for task in dict.fromkeys(cell.task for cell in cells):
        for cell in cells:
            if cell.task != task:
                continue
            for name, summary in cell.metrics.items():
                metric_type, title = METRICS[name]
                results.append(
                    EvalResult(
                        task_type="text-classification",
                        task_name=_task_name(cell),
                        dataset_type=task.lower(),
                        dataset_name=TASKS.get(task, task),
                        dataset_split="test",
                        metric_type=metric_type,
                        metric_name=", ".join([title, *_conditions(cell, by_us=source_name is None)]),
                        metric_value=round(100 * summary.mean, 2),
                        source_name=source_name,
                        source_url=source_url,
                    )
                )
    return results


def _task_name(cell: Cell) -> str:
    return "Citation" if cell.protocol == "citation" else "Classification by frozen embeddings"


def _conditions(cell: Cell, by_us: bool) -> list[str]:
    if cell.protocol == "few_shot":
        draws = cell.settings.get("draws", cell.metrics and max(s.repeats for s in cell.metrics.values()))
        return [f"{cell.settings['shots']} examples per class", f"mean of {draws} draws"]
    listed = " that the card lists" if by_us else ""
    return [f"all training examples{listed}"] if cell.protocol == "full" else []
