"""Find wrong labels and duplicate examples in a classifier of docsplit fit, in a file to read, edit and apply.

docsplit audit output/classification --output report.json
docsplit audit output/classification --apply report.json
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...fitting.audit.report import Audit
from .classify import open_classifier
from .options import SavedClassifier, option, read_options, refuse_processes
from .run_command import script, show_log

if TYPE_CHECKING:
    from ...classifier.pipeline import KNNClassifierPipeline


@dataclass
class AuditArguments(SavedClassifier):
    """Classifier, and the file of the findings."""

    output: str | None = option(
        default=None,
        help="A .json file for possible errors in the examples: labels that other examples contradict, duplicates, "
        "examples without similar ones, and labels that are often confused. Nothing is changed. Default: audit.json, "
        "without --apply.",
    )
    apply: str | None = option(
        default=None,
        help="A file from --output, after you edited it: assign the suggested labels to the label_issues with 'apply', "
        "remove the examples under 'remove', fit again, and save the classifier.",
    )
    overwrite: bool = option(default=False, help="Replace an existing --output, which you may have edited.")
    use_cpu: bool = option(default=False, help="Do not use a GPU.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output is None and self.apply is None:
            self.output = "audit.json"
        if self.output and Path(self.output).suffix.lower() != ".json":
            raise ValueError(f"{self.output}: an audit is written as JSON, so --output must end in .json.")

    def check_files(self) -> None:
        """Raise ValueError if a file is missing, or would be replaced."""
        if self.output and Path(self.output).exists() and not self.overwrite:
            raise ValueError(f"{self.output} exists already: give --output another name, or pass --overwrite.")
        if self.apply and not Path(self.apply).is_file():
            raise ValueError(f"There is no file {self.apply}: write one by --output.")
        if self.apply and not Path(self.model).is_dir():
            raise ValueError(
                f"--apply needs a local folder to save the classifier, not {self.model}: download it first."
            )


def write_audit(pipe: KNNClassifierPipeline, file: str, classifier: str) -> None:
    """Audit the examples of a classifier, and print how to apply the findings."""
    audit = pipe.audit()
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    audit.to_json(file)
    command = shlex.join(["docsplit", "audit", classifier, "--apply", file])
    print(f'{audit}\n\nAll findings are in {file}. Edit the fields "apply" and "remove" in the file, then run:')
    print(f"  {command}")


def apply_audit(pipe: KNNClassifierPipeline, audit: Audit, classifier: str) -> None:
    """Correct the examples of a classifier as marked in an audit, fit again, and save."""
    labels, removed = pipe.apply_audit(audit)
    print(pipe.fit())
    pipe.save_pretrained(classifier)
    print(f"{len(labels):,} examples were relabeled, {len(removed):,} removed. The classifier is in {classifier}.")


def main() -> dict[str, Any]:
    """Apply an audit, make a new one, or both in this order; return the figures for ``--json``."""
    (arguments,) = read_options((AuditArguments,), __doc__, first=("model",))
    arguments.check_files()
    refuse_processes("audit")
    show_log()
    corrections = Audit.from_json(arguments.apply) if arguments.apply else None
    pipe = open_classifier(arguments.model, arguments.use_cpu)
    if corrections:
        apply_audit(pipe, corrections, arguments.model)
    if arguments.output:
        write_audit(pipe, arguments.output, arguments.model)
    return {"audited": arguments.model}


run = script(main, "Run the same command again.")
