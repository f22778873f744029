"""From a folder of PDF and Word files to sorted files: accuracy beside that of the texts, pages, seconds.

    python -m benchmarks.quality.file_readers.make_files --texts contracts/train.jsonl.gz --output files
    python -m benchmarks.quality.folder_of_files --files files --texts contracts/train.jsonl.gz --output output/folder

It writes ``docs/results/folder_of_files.json``. Five files of each label are labeled, and all others are not; scanned
and damaged files are among these. Of each text, the encoder reads the beginning (``--long_documents first``).
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import f1_score
from transformers import pipeline

import docsplit_hf
from docsplit_hf import KNNClassifierPipeline, load_files
from docsplit_hf.classifier.predict_file import PredictionFiles, classify_file
from docsplit_hf.classifier.sorting.undo_sorting import undo_sorting
from docsplit_hf.content_hash import sha256_of_file

from .file_readers.make_files import LONGEST, read_rows

RECORD = Path("docs/results/folder_of_files.json")
SUB_FOLDERS = 3
SHORT = 30_000  # characters of the examples where pages are checked


class Corpus(NamedTuple):
    """Folders of labeled files and of others, and the label of each file by its number."""

    labeled: Path
    inbox: Path
    labels: dict[str, str]


def make_corpus(files: Path, kind: str, texts: Path, output: Path, per_label: int, count: int, special: int) -> Corpus:
    """Copy files of a kind into folders: ``labeled/LABEL/`` and ``inbox/``, with scans and damaged files for PDF."""
    rows = [row for row in read_rows(texts) if len(row["text"]) <= LONGEST][:count]
    labels = {f"{number:04d}": row["label"] for number, row in enumerate(rows)}
    rng = np.random.default_rng(0)
    chosen: set[str] = set()
    for label in sorted(set(labels.values())):
        own = [name for name, given in labels.items() if given == label]
        chosen |= set(rng.choice(own, per_label, replace=False).tolist())
    labeled = output / kind / "labeled"
    inbox = output / kind / "inbox"
    shutil.rmtree(output / kind, ignore_errors=True)
    for name, label in labels.items():
        # Every fourth file is a Word file, if PDF files are wanted.
        is_word = kind == "files" and int(name) % 4 == 3
        folder, ending = ("docx", ".docx") if is_word else ("pdf", ".pdf") if kind == "files" else ("texts", ".txt")
        target = labeled / label if name in chosen else inbox / str(int(name) % SUB_FOLDERS)
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(files / folder / f"{name}{ending}", target)
    if kind == "files":
        for folder in ("scanned", "damaged"):
            (inbox / folder).mkdir()
            for path in sorted((files / folder).iterdir())[:special]:
                shutil.copy2(path, inbox / folder)
    return Corpus(labeled, inbox, labels)


def timed(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """Call a function; also return the seconds that it took."""
    start = time.perf_counter()
    result = function(*arguments, **options)
    return result, round(time.perf_counter() - start, 1)


def new_pipeline(**options: Any) -> KNNClassifierPipeline:
    """Make a pipeline with the encoder that ships, on the CPU."""
    return pipeline("docsplit-knn", device="cpu", **options)


def measure_accuracy(corpus: Corpus, long_documents: str) -> tuple[dict[str, Any], KNNClassifierPipeline]:
    """Read, embed, fit and answer; return the figures, and the pipeline."""
    cache = corpus.inbox.parent / "cache"
    labeled, reading_labeled = timed(load_files, corpus.labeled, cache_dir=cache, show_progress=False)
    failed = corpus.inbox.parent / "failed.csv"
    rows, reading = timed(load_files, corpus.inbox, cache_dir=cache, failed_file=failed, show_progress=False)
    _, again = timed(load_files, corpus.inbox, cache_dir=cache, show_progress=False)
    pipe = new_pipeline(long_documents=long_documents)
    _, adding = timed(pipe.add_examples, labeled, labeled["label"][:])
    _, embedding = timed(pipe.add_documents, rows)
    report, fitting = timed(pipe.fit, show_progress=False)
    answers, answering = timed(pipe, rows)
    right = [corpus.labels[Path(file).stem] for file in rows["file"]]
    given = [answer["label"] for answer in answers]
    macro_f1 = f1_score(right, given, average="macro")
    accuracy = float(np.mean([a == b for a, b in zip(right, given, strict=True)]))
    figures = {
        "labeled": len(labeled),
        "answered": len(rows),
        "characters": sum(map(len, rows["text"])),
        "failed": sum(1 for _ in open(failed, encoding="utf-8")) - 1,
        "macro_f1": round(float(macro_f1), 4),
        "accuracy": round(accuracy, 4),
        "answers_with_page": sum("page" in answer or "pages" in answer for answer in answers),
        "seconds_reading_labeled": reading_labeled,
        "seconds_reading": reading,
        "seconds_reading_again": again,
        "seconds_embedding_labeled": adding,
        "seconds_embedding": embedding,
        "seconds_fitting": fitting,
        "seconds_answering": answering,
        "report": str(report).splitlines()[0],
    }
    return figures, pipe


def letters(text: str) -> str:
    """Keep letters and digits alone: line ends and hyphens differ between a page and a text."""
    return re.sub(r"[\W_]+", "", text)


def measure_pages(corpus: Corpus, count: int, max_passages: int) -> dict[str, int]:
    """Count the answers whose named page holds the passage, by a search in the text of the page itself."""
    import pypdfium2

    pipe = new_pipeline(long_documents="passages", passage_length=128)
    labeled = load_files(corpus.labeled, cache_dir=corpus.inbox.parent / "cache", show_progress=False)
    labeled = labeled.filter(lambda row: len(row["text"]) < SHORT)  # examples are read to their end
    pipe.add_examples(labeled, labeled["label"][:])
    pipe.fit(show_progress=False)
    paths = sorted(corpus.inbox.glob("[0-9]/*.pdf"))[:count]
    found = 0
    crossing = 0
    passages = 0
    for path, answer in zip(
        paths, pipe(paths, explain=True, return_neighbors=1, max_passages=max_passages), strict=True
    ):
        neighbor = answer["neighbors"][0]
        shown = [(path, answer["explanation"]["passage"]), (path, neighbor["text_passage"])]
        if neighbor["file"].endswith(".pdf"):
            shown.append((corpus.labeled / neighbor["file"], neighbor["passage"]))
        is_found = answer["file"] == path.as_posix() and answer.get("page") == shown[0][1].get("page")
        for file, passage in shown:
            passages += 1
            pages = [passage["page"]] if "page" in passage else passage["pages"]
            crossing += len(pages) > 1
            with pypdfium2.PdfDocument(file) as document:
                texts = [letters(document[page - 1].get_textpage().get_text_range()) for page in pages]
            is_found &= _is_on_pages(letters(passage["text"]), texts)
        found += is_found
    return {"answers": len(paths), "found": found, "passages": passages, "passages_across_pages": crossing}


def _is_on_pages(passage: str, pages: list[str]) -> bool:
    """Whether a passage is on one page, or begins on the first page and goes on on each of the others."""
    if len(pages) == 1:
        return passage in pages[0]
    for end in range(len(passage), 0, -1):
        if passage[:end] in pages[0] and _is_on_pages(passage[end:], pages[1:]):
            return True
    return False


def measure_sorting(corpus: Corpus, pipe: KNNClassifierPipeline, folder: Path) -> dict[str, Any]:
    """Sort the files of the inbox into folders, and undo it: every file must be as it was."""
    before = checksums(corpus.inbox)
    shutil.rmtree(folder, ignore_errors=True)
    files = PredictionFiles(corpus.inbox, folder / "answers.csv", sorted_folder=folder)
    outcome, seconds = timed(classify_file, pipe, files, show_progress=False)
    copies = {path: digest for path, digest in checksums(folder).items() if "/" in path}
    undone, undoing = timed(undo_sorting, folder)
    left = sorted(path for path in checksums(folder) if "/" in path)
    return {
        "files": outcome.sorted_files.files,
        "by_folder": outcome.sorted_files.by_folder,
        "renamed": outcome.sorted_files.renamed,
        "failed": outcome.failed,
        "copies_equal": sorted(copies.values()) == sorted(before.values()),
        "sources_unchanged": checksums(corpus.inbox) == before,
        "removed": undone.removed,
        "left": len(left),
        "seconds_classifying_and_sorting": seconds,
        "seconds_undoing": undoing,
    }


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder."""
    return {path.relative_to(folder).as_posix(): sha256_of_file(path) for path in folder.rglob("*") if path.is_file()}


def write_record(record: dict[str, Any]) -> None:
    """Write what was measured so far."""
    record["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, required=True, help="The output of make_files.")
    parser.add_argument("--texts", type=Path, required=True, help="The file of texts that make_files printed.")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--per_label", type=int, default=5)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--special", type=int, default=30)
    parser.add_argument("--pages", type=int, default=100, help="Number of answers whose pages are checked.")
    parser.add_argument("--max_passages", type=int, default=8, help="Passages of a text, where pages are checked.")
    parser.add_argument("--long_documents", default="first", help="What is read of a text, for the accuracy.")
    arguments = parser.parse_args()
    record: dict[str, Any] = {"docsplit_hf": docsplit_hf.__version__, "long_documents": arguments.long_documents}
    corpora: dict[str, Corpus] = {}
    for kind in ("files", "texts"):
        corpus = make_corpus(
            arguments.files, kind, arguments.texts, arguments.output, arguments.per_label, arguments.count,
            arguments.special,
        )  # fmt: skip
        corpora[kind] = corpus
        record[kind], pipe = measure_accuracy(corpus, arguments.long_documents)
        write_record(record)
        if kind == "files":
            record["sorting"] = measure_sorting(corpus, pipe, arguments.output / "sorted")
            write_record(record)
    record["pages"] = measure_pages(corpora["files"], arguments.pages, arguments.max_passages)
    write_record(record)


if __name__ == "__main__":
    main()
