"""save_code: docsplit_hf itself into the folder of a classifier, so that it answers where docsplit_hf is missing."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from .docsplit_knn_pipeline import PACKAGE, SelfContainedPipeline

CONFIG, REQUIREMENTS = "config.json", "requirements.txt"
ENTRY, HANDLER = "docsplit_knn_pipeline.py", "handler.py"
CODE_PATTERNS = (ENTRY, HANDLER, REQUIREMENTS, f"{PACKAGE}/*")
# The package that neighbors/ belongs to, and what it stands on: imports run downwards only.
ROOT = Path(__file__).parents[1]
ROOMS = ("text", "encoders", "metrics", "training", "datastore", "classification", "self_contained")
CUSTOM_PIPELINES = {
    "docsplit-knn": {
        "impl": f"{Path(ENTRY).stem}.{SelfContainedPipeline.__name__}",
        "pt": ["AutoModelForSequenceClassification"],
        "type": "text",
    }
}


def check_folder(folder: Path) -> None:
    """Refuse a folder with a package of that name that no save put there: the next one would delete it."""
    if (folder / PACKAGE).exists() and not (folder / ENTRY).is_file():
        raise ValueError(f"{folder} has a {PACKAGE} of its own: save to another folder.")


def save_code(folder: Path) -> None:
    """Write the pipeline's code, as it is here, what it needs to be installed, a handler, and who has the pipeline."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if endpoint := config.get("endpoint"):
        raise ValueError(
            f"self_contained=True is for encoders that are saved too, not behind {endpoint}: leave it out."
        )
    content = json.dumps(config | {"custom_pipelines": CUSTOM_PIPELINES}, indent=2, sort_keys=True)
    (folder / CONFIG).write_text(f"{content}\n", encoding="utf-8")
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise ValueError("self_contained=True reads the requirements: install docsplit_hf here first.") from error
    files = [ROOT / name for name in ("__init__.py", "extras.py", "registration.py", "shards.py")]
    files += [file for room in ROOMS for pattern in ("*.py", "card.md") for file in (ROOT / room).rglob(pattern)]
    for file in files:
        target = folder / PACKAGE / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    # Where the package runs from a clone, its license lies beside it.
    license_text = installed.read_text("licenses/LICENSE") or (ROOT.parent / "LICENSE").read_text(encoding="utf-8")
    (folder / PACKAGE / "LICENSE").write_text(license_text, encoding="utf-8")
    for name in (ENTRY, HANDLER):
        shutil.copyfile(Path(__file__).with_name(name), folder / name)
    needed = [requirement for requirement in installed.requires or [] if "extra ==" not in requirement]
    (folder / REQUIREMENTS).write_text("\n".join([*needed, ""]), encoding="utf-8")


def code_files(folder: Path) -> list[str]:
    """The names of the files that ``save_code`` wrote to a folder: none, unless the pipeline's own file is there."""
    if not (folder / ENTRY).is_file():
        return []
    package = (path.relative_to(folder).as_posix() for path in (folder / PACKAGE).rglob("*") if path.is_file())
    return [ENTRY, HANDLER, REQUIREMENTS, *package]
