"""Export the model of a saved classifier to ONNX, so that it answers without torch: in a second, from a small install.

docsplit export output/classification
"""

from dataclasses import dataclass
from typing import Any

from ...encoding.exported.embedder import GRAPH, PRECISIONS
from .classify import open_classifier
from .options import SavedClassifier, option, read_options
from .run_command import script


@dataclass
class ExportArguments(SavedClassifier):
    """The classifier, and the precision of its graph."""

    precision: str = option(
        default="float32",
        help="Precision of the graph, which is written into the classifier's folder 'exported'. float32: the answers "
        "of torch. int8: a quarter of the size, with answers that differ slightly.",
        choices=list(PRECISIONS),
    )


def main() -> dict[str, Any]:
    """Export a classifier; return the figures for ``--json``."""
    (arguments,) = read_options((ExportArguments,), __doc__, first=("model",))
    pipe = open_classifier(arguments.model, use_cpu=True)
    from ...encoding.exported.export import export_classifier  # here, as it imports torch

    exported = export_classifier(pipe.embedder, arguments.model, arguments.precision)
    megabytes = (exported / GRAPH).stat().st_size / 1e6
    print(f"The model is in {exported}, {megabytes:.0f} MB. Answers without torch, in Python:")
    print(f'  from docsplit_hf import ExportedClassifier\n  ExportedClassifier("{arguments.model}")("a text")')
    return {"folder": str(exported), "megabytes": megabytes}


run = script(main, "To export again, run the same command.")
