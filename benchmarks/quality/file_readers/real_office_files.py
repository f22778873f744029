"""Choose real office files, and write the text that LibreOffice finds in each, as known texts for compare.py.

    python -m benchmarks.quality.file_readers.real_office_files --real FOLDER --output office_files
    python -m benchmarks.quality.file_readers.compare --files office_files --packages packages \\
        --output docs/results/file_readers/office

It needs LibreOffice (``soffice``). Any folder with Word, PowerPoint and OpenDocument files will do, such as the test
files of LibreOffice, Apache POI, pandoc, docx4j, Open-XML-SDK and odftoolkit. Word and OpenDocument texts are saved as
text by LibreOffice; presentations are printed as PDF, whose text PDFium reads. Files without text, and those that
LibreOffice cannot open, are left out. Finished texts are kept.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
from pathlib import Path

from .compare import words_of
from .systems import pypdfium2

AS_TEXT = "txt:Text (encoded):UTF8"
FORMATS = {"docx": AS_TEXT, "odt": AS_TEXT, "doc": AS_TEXT, "pptx": "pdf", "odp": "pdf", "ppt": "pdf"}
SMALLEST = 3_000  # bytes
LARGEST = 2_000_000
SECONDS = 60


def text_of(path: Path, convert_to: str, folder: Path) -> str:
    """The text of a file as LibreOffice has it; empty if it opens no such file."""
    converted = folder / f"{path.stem}.{convert_to.partition(':')[0]}"
    command = ["soffice", "--headless", "--convert-to", convert_to, "--outdir", str(folder), str(path)]
    if not converted.exists():
        try:
            subprocess.run(command, env={**os.environ, "HOME": str(folder)}, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return ""
    if not converted.exists():
        return ""
    return pypdfium2(converted) if convert_to == "pdf" else converted.read_text(encoding="utf-8-sig", errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=100, help="Number of files of each format. Default: %(default)s.")
    arguments = parser.parse_args()
    texts = arguments.output / "texts"
    for kind, convert_to in FORMATS.items():
        converted = arguments.output / "converted" / kind
        for folder in (texts, converted, arguments.output / kind):
            folder.mkdir(parents=True, exist_ok=True)
        found = [path for path in arguments.real.rglob(f"*.{kind}") if SMALLEST < path.stat().st_size < LARGEST]
        chosen = random.Random(0).sample(sorted(found), min(arguments.count, len(found)))
        for number, source in enumerate(chosen):
            path = arguments.output / kind / f"{kind}-{number:03d}.{kind}"
            shutil.copyfile(source, path)
            text = text_of(path, convert_to, converted)
            if words_of(text):
                (texts / f"{path.stem}.txt").write_text(text, encoding="utf-8")
            else:
                path.unlink()


if __name__ == "__main__":
    main()
