"""Read files in processes: one, or many in order."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ...cores import core_count
from ..characters import on_one_line
from .cache import Cache
from .failures import NOT_ACCESSIBLE, FailedFile, Refusal, UnreadableFile, failed_file
from .options import DEFAULT_LANGUAGE, FileOptions
from .places import FileText
from .readers.ocr import SECONDS_OF_PAGE
from .worker import check_size
from .workers import Worker

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
_END = object()  # of the items

SHOWN_PARTS = 5
DROPPED = "Lines that were dropped, as they repeat at the top or bottom of pages"
REPLACED = "Characters that cannot be decoded, and were replaced by U+FFFD"
FILES_AHEAD = 32  # per process: those that wait behind a slow one


def read_file(path: str | Path, options: FileOptions | None = None) -> FileText:
    """Read the text of a file, in a process of its own.

    Args:
        path: A PDF, DOCX, PPTX, XLSX, ODT, HTML, EML, MSG, RTF, EPUB, Markdown or text file, or a zip file of such.
            The content decides which one it is.
        options: Limits, cleaning and OCR.

    Returns:
        The text, its places, and what was changed in it.

    Raises:
        UnreadableFile: If it cannot be read; with the reason and the remedy.
    """
    [result] = read_files([path], options, processes=1, show_progress=False)
    if isinstance(result, FailedFile):
        raise UnreadableFile.of(result)
    return result


def read_files(
    paths: Sequence[str | Path],
    options: FileOptions | None = None,
    processes: int | None = None,
    cache_dir: str | Path | None = None,
    show_progress: bool = True,
) -> Iterator[FileText | FailedFile]:
    """Read files in processes that are ended when a file takes too long or too much memory.

    Args:
        paths: The files.
        options: Limits, cleaning and OCR.
        processes: Number of processes. None: one per core.
        cache_dir: Folder of texts by the content of their files, from which a second run reads. None: no cache.
        show_progress: Whether to show a progress bar.

    Yields:
        The text or the failure of each file, in the order of ``paths``; only a few are in memory at a time. Parts of
        files that are left out are counted and named in the log when all have been read.
    """
    found = read_among(paths, Path, options, processes, cache_dir, len(paths) if show_progress else None)
    yield from (result for _, result in found)


def read_among(
    items: Iterable[Item],
    path_of: Callable[[Item], Path | None],
    options: FileOptions | None = None,
    processes: int | None = None,
    cache_dir: str | Path | None = None,
    progress_total: int | None = None,
) -> Iterator[tuple[Item, FileText | FailedFile | None]]:
    """Read the files among items as ``read_files`` does, with one set of processes for all of them.

    Args:
        items: The items; while files follow one another, they are taken ahead.
        path_of: Returns the file of an item; None for an item without one.
        options, processes, cache_dir: As for ``read_files``.
        progress_total: The number of items, for a progress bar. None: no bar.

    Yields:
        Each item, with the text or the failure of its file, or None without one.

    With OCR, a list of items and a cache, the pages to recognize are counted before, and the log says the minutes.
    """
    from tqdm.auto import tqdm

    options = options or FileOptions()
    processes = processes or core_count()
    reading = _Reading(options, cache_dir)
    executor = ThreadPoolExecutor(processes, thread_name_prefix="read_files")  # starts a thread when it is needed
    waiting: deque[tuple[Item, Future[FileText | FailedFile] | None]] = deque()
    stream = iter(items)
    is_file = True  # whether the last item that was taken is a file
    reasons: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    examples: list[str] = []
    try:
        if options.ocr is not None and cache_dir is not None and isinstance(items, Sequence):
            counts = executor.map(reading.count_pages_to_recognize, filter(None, map(path_of, items)))
            is_hidden = progress_total is None
            counts = tqdm(counts, total=progress_total, unit="file", desc="Looking for scans", disable=is_hidden)
            _announce_scans(list(counts), options.ocr, processes)
        with tqdm(total=progress_total, unit="file", desc="Reading files", disable=progress_total is None) as progress:
            while True:
                while not waiting or (is_file and len(waiting) < FILES_AHEAD * processes):
                    item = next(stream, _END)
                    if item is _END:
                        break
                    path = path_of(item)
                    is_file = path is not None
                    waiting.append((item, executor.submit(reading.read, path) if is_file else None))
                if not waiting:
                    return
                item, future = waiting.popleft()
                result = None if future is None else future.result()
                if isinstance(result, FileText):
                    changes[DROPPED] += result.dropped_lines
                    changes[REPLACED] += result.text.count("\ufffd")
                for part in result.left_out if isinstance(result, FileText) else ():
                    reasons[part.reason] += 1
                    examples.append(f"  {on_one_line(os.fspath(path_of(item)))}, {part.name}: {part.reason}")
                del examples[SHOWN_PARTS:]
                yield item, result
                progress.update()
    finally:
        reading.end()
        executor.shutdown(wait=True, cancel_futures=True)
        reading.close()
        _log_changes(changes, reasons, examples)


def _log_changes(changes: Counter[str], reasons: Counter[str], examples: Sequence[str]) -> None:
    """Log how much was changed in texts, and which parts of files are not read."""
    for change, count in changes.items():
        if count:
            logger.info(f"{change}: {count:,}.")
    if reasons:
        counts = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        listed = "\n".join(examples)
        logger.warning(f"Parts of files that are not read, such as attachments: {counts}. For example:\n{listed}")


def _announce_scans(counts: Sequence[int], engine: str, processes: int) -> None:
    """Log how many pages of files will be recognized, and how long that takes."""
    pages = sum(counts)
    files = sum(1 for count in counts if count)
    if pages:
        minutes = max(1, round(pages * SECONDS_OF_PAGE[engine] / processes / 60))
        logger.warning(
            f"Pages to recognize, which are pictures without text: {pages:,}, in {files:,} of {len(counts):,} files. "
            f"{engine} takes about {minutes:,} minute{'' if minutes == 1 else 's'}: {SECONDS_OF_PAGE[engine]:g} "
            f"seconds of a core for each, {processes} at a time."
        )


class _Reading:
    """What the threads of ``read_files`` share; each has a worker of its own."""

    def __init__(self, options: FileOptions, cache_dir: str | Path | None) -> None:
        self.options = options
        self.without_ocr = replace(options, ocr=None, ocr_language=DEFAULT_LANGUAGE)
        self.local = threading.local()
        self.workers: list[Worker] = []
        self.caches: dict[FileOptions, Cache] = {}  # of texts that are read without and with OCR
        if cache_dir is not None:
            self.caches = {options: Cache(Path(cache_dir), options) for options in {self.without_ocr, options}}

    def read(self, path: Path) -> FileText | FailedFile:
        """Read a file, with OCR only if it has pages without text: all others are read once, with it or without."""
        found = self._read(path, self.without_ocr)
        if self.options.ocr is not None and found.pages_without_text:
            return self._read(path, self.options)
        return found

    def count_pages_to_recognize(self, path: Path) -> int:
        """The number of pages of a file that are pictures without text; 0 if a cache has what is recognized in them."""
        pages = self._read(path, self.without_ocr).pages_without_text
        return pages if pages and self.caches[self.options].find(path) is None else 0

    def _read(self, path: Path, options: FileOptions) -> FileText | FailedFile:
        """Read a file from the cache, or by the worker of this thread."""
        name = os.fspath(path)
        cache = self.caches.get(options)
        try:
            check_size(path, options)
            found = cache.find(path) if cache is not None else None
        except Refusal as refusal:
            return failed_file(name, refusal.reason, refusal.detail)
        except OSError as error:
            return failed_file(name, NOT_ACCESSIBLE, str(error))
        if found is None:
            digest, found = self.worker().read(path, options)
            if cache is not None and digest:
                cache.keep(digest, path, found)
        return found._replace(file=name) if isinstance(found, FailedFile) else found

    def worker(self) -> Worker:
        """The worker of this thread."""
        if not hasattr(self.local, "worker"):
            self.local.worker = Worker()
            self.workers.append(self.local.worker)
        return self.local.worker

    def end(self) -> None:
        """End the workers, so that no thread waits for a file."""
        for worker in self.workers:
            worker.end()

    def close(self) -> None:
        """Close the workers, when no thread uses them any more."""
        for worker in self.workers:
            worker.close()
