"""Count the files and functions of docsplit_hf that one fitted answer passes, and ``fit()``.

    python -m benchmarks.release.answer_trace --output output/answer_trace.json
    PYTHONPATH=/another/checkout python benchmarks/release/answer_trace.py     # the code of another checkout

A profile hook of Python (``sys.setprofile``, in all threads) sees each call of a Python function. Lambdas,
comprehensions and generator expressions are not counted as functions. Each call is traced the second time, when all
modules are imported and caches are filled. Only the public interface is used, so that older versions can be measured.
"""

import argparse
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from transformers import pipeline

import docsplit_hf

PACKAGE = Path(docsplit_hf.__file__).parent
QUESTION = "The cellist tuned her instrument before the concert."


@dataclass
class Trace:
    """The functions of the package that a call passed."""

    name: str
    calls: Counter[CodeType] = field(default_factory=Counter, repr=False)

    @property
    def functions(self) -> dict[str, list[str]]:
        """The names of the functions by file, relative to the package."""
        by_file: dict[str, set[str]] = {}
        for code in self.calls:
            file = str(Path(code.co_filename).relative_to(PACKAGE))
            functions = by_file.setdefault(file, set())
            if not code.co_name.startswith("<"):
                functions.add(code.co_qualname)
        return {file: sorted(functions) for file, functions in sorted(by_file.items())}

    def record(self) -> dict[str, Any]:
        """The figures, and the names behind them, for a file of JSON."""
        functions = self.functions
        return {
            "call": self.name,
            "files": len(functions),
            "functions": sum(len(names) for names in functions.values()),
            "calls": sum(self.calls.values()),
            "functions_by_file": functions,
        }


def trace(name: str, function: Callable[[], Any]) -> Trace:
    """Call a function, and count what it calls in the package, in all threads."""
    found = Trace(name)

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{PACKAGE}/"):
            found.calls[frame.f_code] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def measure(explain: bool) -> list[Trace]:
    """Trace a fitted answer and ``fit()``, on the example texts that come with the package."""
    texts = docsplit_hf.load_example_texts()
    labeled = texts[texts["label"].notna()]
    unlabeled = texts[texts["label"].isna()]
    pipe = pipeline("docsplit-knn", device="cpu")
    pipe.add_examples(labeled["text"].tolist(), labeled["label"].tolist())
    pipe.add_documents(unlabeled["text"].tolist())
    pipe.fit()
    fit = trace("fit()", pipe.fit)
    options = {"explain": True} if explain else {}
    pipe(QUESTION, **options)
    answer = trace("a fitted answer", lambda: pipe(QUESTION, **options))
    return [answer, fit]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--explain", action="store_true", help="Ask for the reasons of the answer, too.")
    parser.add_argument("--names", action="store_true", help="Print the names of the files and functions.")
    parser.add_argument("--output", type=Path, help="A file of JSON for the figures and all names.")
    options = parser.parse_args()
    records = [found.record() for found in measure(options.explain)]
    print(f"| {'call':16} | files | functions | calls |")
    print(f"| {'-' * 16} | ----- | --------- | ----- |")
    for record in records:
        print(f"| {record['call']:16} | {record['files']:5} | {record['functions']:9} | {record['calls']:5} |")
    if options.names:
        for record in records:
            print(f"\n{record['call']}:")
            for file, names in record["functions_by_file"].items():
                print(f"  {file}: {', '.join(names)}")
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps({"package": docsplit_hf.__version__, "calls": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
