"""Readers of files compared, and many files read: docs/files.md."""

from __future__ import annotations

import statistics
from typing import Any

from .pages import Figure, Figures, Row
from .records import content

FOLDER = "file_readers"
# Which package reads for a system, and what it is called in the table.
PACKAGES = {
    "docsplit_hf": ("docsplit_hf", None),
    "pypdfium2": ("pypdfium2, as it is", "pypdfium2"),
    "pypdf": ("pypdf", "pypdf"),
    "pdfminer": ("pdfminer.six", "pdfminer.six"),
    "python_docx": ("python-docx", "python-docx"),
    "docx2python": ("docx2python", "docx2python"),
    "mammoth": ("mammoth", "mammoth"),
    "python_pptx": ("python-pptx", "python-pptx"),
    "odfpy": ("odfpy", "odfpy"),
    "odfdo": ("odfdo", "odfdo"),
    "selectolax": ("selectolax, as it is", "selectolax"),
    "beautifulsoup": ("BeautifulSoup", "beautifulsoup4"),
    "trafilatura": ("trafilatura", "trafilatura"),
    "markitdown": ("markitdown", "markitdown"),
    "kreuzberg": ("kreuzberg", "kreuzberg"),
    "xberg": ("xberg, as it is", "xberg"),
}
OURS = ("olefile", "pypdfium2", "python-calamine", "selectolax", "striprtf")
FORMATS = {"pdf": "PDF", "docx": "DOCX", "html": "HTML"}
OFFICE_FORMATS = {"docx": "DOCX", "pptx": "PPTX", "odt": "ODT", "odp": "ODP", "doc": "DOC", "ppt": "PPT"}
ENGINES = {"tesseract": "Apache 2.0", "rapidocr": "Apache 2.0"}


def file_readers() -> Figures:
    [ours] = [row for row in content(f"{FOLDER}/records.jsonl") if is_ours_on_contracts(row)]
    return {
        "readers of files": table(),
        "readers of office files": office_table(),
        "readers of scans": scans_table(),
        "megabytes of xberg": content(f"{FOLDER}/packages.json")["xberg"]["megabytes"],
        "megabytes of rapidocr": content(f"{FOLDER}/packages.json")["rapidocr"]["megabytes"],
        "words of a contract": ours["words"] / ours["files"],
        **many_files(),
        **killed(),
        **hostile(),
    }


def is_ours_on_contracts(row: dict[str, Any]) -> bool:
    """Whether a record is of our reader on contracts in Word files, which have the words of the source alone."""
    return (row["system"], row["format"], row["texts"]) == ("docsplit_hf", "docx", "known")


def table() -> list[Row]:
    """Return a row for each format and library: files per second, words, failures, size, packages, license."""
    packages: dict[str, Any] = content(f"{FOLDER}/packages.json")
    rows: list[Row] = []
    for kind, title in FORMATS.items():
        found = [row for row in content(f"{FOLDER}/records.jsonl") if row["format"] == kind]
        for system, (name, package) in PACKAGES.items():
            of_system = {row["texts"]: row for row in found if row["system"] == system}
            if "known" not in of_system:
                continue
            known = of_system["known"]
            failures = sum(row["failures"] for row in of_system.values())
            files = sum(row["files"] for row in of_system.values())
            if package is None:
                size = sum(packages[ours]["megabytes"] for ours in OURS)
                needs = (f"{size:.0f}", f"{len(OURS)}", "MIT, BSD, Apache 2.0")
            else:
                entry = packages[package]
                needs = (f"{entry['megabytes']:.0f}", f"{entry['packages']}", short_license(entry["license"]))
            rows.append((title, name, *speeds(of_system), *words(known), f"{failures} of {files}", *needs))
    return rows


def office_table() -> list[Row]:
    """Return a row for each format and library on real office files, whose texts are those of LibreOffice."""
    packages: dict[str, Any] = content(f"{FOLDER}/packages.json")
    records = content(f"{FOLDER}/office/records.jsonl")
    rows: list[Row] = []
    for kind, title in OFFICE_FORMATS.items():
        found = {row["system"]: row for row in records if row["format"] == kind}
        for system, (name, package) in PACKAGES.items():
            if system not in found:
                continue
            row = found[system]
            licensed = "MIT, BSD, Apache 2.0" if package is None else short_license(packages[package]["license"])
            failures = f"{row['failures']} of {row['files']}"
            rows.append((title, name, files_per_second(row), *words(row), failures, licensed))
    return rows


def scans_table() -> list[Row]:
    """Return a row for each OCR engine: seconds of a page, its longest, and the words found."""
    rows: list[Row] = []
    for engine, license_ in ENGINES.items():
        found = [row for row in content(f"{FOLDER}/scans.jsonl") if row["engine"] == engine]
        seconds = [row["seconds"] for row in found]
        mean = {name: sum(row[name] for row in found) / len(found) for name in ("f1", "in_order")}
        worst = f"{100 * min(row['f1'] for row in found):.1f}"
        speed = (f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}")
        rows.append((f"{engine} {found[0]['version']}", f"{len(found)}", *words(mean), worst, *speed, license_))
    return rows


def speeds(of_system: dict[str, Any]) -> tuple[str, str]:
    """Return the files that a second of the processor reads, of those with a known text and of real ones."""
    known, real = (of_system.get(texts) for texts in ("known", "real"))
    return files_per_second(known), "–" if real is None else files_per_second(real)


def files_per_second(row: dict[str, Any]) -> str:
    """Return a number with two digits."""
    speed = row["files"] / row["seconds"]
    return f"{float(f'{speed:.2g}'):,.4g}"


def words(known: dict[str, Any]) -> tuple[str, str]:
    """Return the F1 of words, and the fraction of words found in order, in percent."""
    return f"{100 * known['f1']:.1f}", f"{100 * known['in_order']:.1f}"


def short_license(text: str) -> str:
    """Return a license as it is called."""
    return text.replace(" License", "").removesuffix(", dependency licenses").replace("Apache-2.0", "Apache 2.0")


def many_files() -> dict[str, Figure]:
    """Return what reading many small PDF files took."""
    found = [row for row in content(f"{FOLDER}/scale.jsonl") if row["measured"] == "speed"]
    record = max(found, key=lambda row: row["files"])
    per_second = record["files"] / record["first_processor_seconds"]
    return {
        "files": record["files"],
        "files a second of one core": per_second,
        "minutes on one core": record["first_processor_seconds"] / 60,
        "seconds by the clock": record["first_seconds"],
        "seconds of the second run": record["second_processor_seconds"],
        "memory of the parent": record["parent_megabytes"],
        "memory of a worker": record["worker_megabytes"],
        "size of the files": record["megabytes"],
        "size of the cache": record["cache_megabytes"],
    }


def killed() -> dict[str, Figure]:
    """Return what was left after kills."""
    [record] = [row for row in content(f"{FOLDER}/scale.jsonl") if row["measured"] == "kills"]
    assert record["equal"]
    return {"kills": record["kills"], "killed files": record["files"], "read again": record["read_again"]}


def hostile() -> dict[str, Figure]:
    """Return what reading hostile and damaged files took."""
    [record] = [row for row in content(f"{FOLDER}/scale.jsonl") if row["measured"] == "hostile"]
    assert record["refused"] == record["files"]
    return {
        "hostile files": record["files"],
        "seconds of the longest": record["longest_seconds"],
        "memory of the largest": record["largest_megabytes"],
    }
