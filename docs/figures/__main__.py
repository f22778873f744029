"""Write the figures of the pages anew from their records, and say which pages change.

python -m docs.figures
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from .analyses import analyses
from .contracts import contracts
from .encoders import encoders
from .few_labels import few_labels
from .file_readers import file_readers
from .folder_of_files import folder_of_files
from .gpu import papers_on_a_gpu
from .guides import coming_from_setfit, corpus, few_labels_guide, no_labels, pretraining
from .length import length
from .longer_study import longer_study
from .neighbors import neighbors
from .pages import Figures, write_figures
from .paperless import paperless
from .performance import cold_start, measurements, performance
from .projection import projection
from .published import published
from .readme import readme
from .records import ROOT
from .reliability import reliability, reliability_guide
from .reports import audit_report, few_labels_report, rejection_report
from .results import results
from .study import study
from .teacher import teacher
from .ten_million import datastore, ten_million
from .training_by_passages import training_by_passages

# The figures between the sentences of a page.
PAGES: Mapping[str, Callable[[], Figures]] = {
    "README.md": readme,
    "docs/coming_from_setfit.md": coming_from_setfit,
    "docs/contracts.md": contracts,
    "docs/corpus.md": corpus,
    "docs/datastore.md": datastore,
    "docs/baselines.md": papers_on_a_gpu,
    "docs/encoders.md": encoders,
    "docs/few_labels.md": few_labels_guide,
    "docs/files.md": file_readers,
    "docs/folder_of_files.md": folder_of_files,
    "docs/no_labels.md": no_labels,
    "docs/performance.md": performance,
    "docs/pretraining.md": pretraining,
    "docs/reliability.md": reliability_guide,
    "docs/requirements.md": cold_start,
    "docs/results/README.md": results,
    "docs/results/analyses.md": analyses,
    "docs/results/few_labels.md": few_labels,
    "docs/results/length.md": length,
    "docs/results/longer_study.md": longer_study,
    "docs/results/neighbors.md": neighbors,
    "docs/results/performance.md": measurements,
    "docs/results/projection.md": projection,
    "docs/results/published.md": published,
    "docs/results/reliability.md": reliability,
    "docs/results/study.md": study,
    "docs/results/ten_million/results.md": ten_million,
    "docs/results/training_by_passages.md": training_by_passages,
    "docs/teacher.md": teacher,
    "examples/paperless/README.md": paperless,
}
# Reports without a sentence of their own.
REPORTS: Mapping[str, Callable[[], str]] = {
    "docs/results/few_labels/report.md": few_labels_report,
    "docs/results/reliability/audit.md": audit_report,
    "docs/results/reliability/rejection.md": partial(rejection_report, "rejection"),
    "docs/results/reliability/unequal/rejection.md": partial(rejection_report, "unequal/rejection"),
    "docs/results/reliability/foreign/rejection.md": partial(rejection_report, "foreign/rejection"),
}


def changed_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page whose figures are not those of its records, with its new text."""
    for name in (*PAGES, *REPORTS):
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if name in REPORTS:
            written = REPORTS[name]()
        else:
            try:
                written = write_figures(text, PAGES[name]())
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        if written != text:
            yield path, written


def main() -> None:
    for path, text in changed_pages():
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)} has new figures")


if __name__ == "__main__":
    main()
