"""Copying of docsplit_hf into the folder of a classifier, for use where it is not installed."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGE = "docsplit_hf"
CONFIG = "config.json"
REQUIREMENTS = "requirements.txt"
ENTRY = "docsplit_knn_pipeline.py"
HANDLER = "handler.py"
CODE_PATTERNS = (ENTRY, HANDLER, REQUIREMENTS, f"{PACKAGE}/*")
ROOT = Path(__file__).parents[1]
# No file below the classifier imports these.
LEFT_OUT = ("__main__.py", "apps", "connectors", "evaluation", "finetuning", "pretraining")
CHECKPOINTS = ROOT / "encoding" / "checkpoints"
CUSTOM_PIPELINES = {
    "docsplit-knn": {
        "impl": "docsplit_knn_pipeline.SelfContainedPipeline",
        "pt": ["AutoModelForSequenceClassification"],
        "type": "text",
    }
}


def check_copied_package(folder: Path) -> None:
    """Raise ValueError for a folder with a package docsplit_hf that no save wrote: the next save would delete it."""
    if (folder / PACKAGE).exists() and not (folder / ENTRY).is_file():
        raise ValueError(f"{folder} already has a folder {PACKAGE} that is not from a save: save to another folder.")


def save_code(folder: Path) -> None:
    """Write the package, its requirements and a handler, and add the pipeline to the configuration."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if config.get("endpoint"):
        raise ValueError(
            f"self_contained=True is for encoders that are saved too, not behind {config['endpoint']}: leave it out."
        )
    content = json.dumps(config | {"custom_pipelines": CUSTOM_PIPELINES}, indent=2, sort_keys=True)
    (folder / CONFIG).write_text(f"{content}\n", encoding="utf-8")
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise ValueError("self_contained=True reads the requirements: install docsplit_hf here first.") from error
    for file in ROOT.rglob("*"):
        is_code = file.suffix in (".py", ".json", ".md") and file.relative_to(ROOT).parts[0] not in LEFT_OUT
        if not is_code or CHECKPOINTS in file.parent.parents:  # the encoder is saved by itself
            continue
        target = folder / PACKAGE / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    # In a clone, the license is in the root of the repository.
    license_text = installed.read_text("licenses/LICENSE") or (ROOT.parent / "LICENSE").read_text(encoding="utf-8")
    (folder / PACKAGE / "LICENSE").write_text(license_text, encoding="utf-8")
    for name in (ENTRY, HANDLER):
        shutil.copyfile(Path(__file__).with_name(name), folder / name)
    needed = [requirement for requirement in installed.requires or [] if "extra ==" not in requirement]
    (folder / REQUIREMENTS).write_text("\n".join([*needed, ""]), encoding="utf-8")


def code_files(folder: Path) -> list[str]:
    """Names of the files that ``save_code`` wrote to a folder, if it did."""
    if not (folder / ENTRY).is_file():
        return []
    package = (path.relative_to(folder).as_posix() for path in (folder / PACKAGE).rglob("*") if path.is_file())
    return [ENTRY, HANDLER, REQUIREMENTS, *package]
