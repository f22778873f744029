"""Corpus of docstrings from installed Python packages."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import DatasetDict

DOCUMENTATION = "documentation"  # name of the corpus on the command line
PACKAGES = ("accelerate", "datasets", "huggingface_hub", "numpy", "pandas", "torch", "transformers")
MINIMUM_WORDS = 60  # long enough for two meaningful halves
DOCUMENTS_PER_PACKAGE = 1000  # limits the weight of large packages


def load_package_documentation(
    packages: tuple[str, ...] = PACKAGES, test_size: int = 500, seed: int = 0, num_proc: int | None = None
) -> DatasetDict:
    """Load docstrings of installed packages as documents with the package as label; no download is needed.

    Docstrings of at least 60 words are read from the source files of modules, classes and functions; the files are
    parsed, never imported. Duplicates are left out, and at most 1,000 docstrings are drawn from each package. The
    corpus depends on the installed versions.

    Args:
        packages: Import names of the packages to read.
        test_size: Number of held-out documents; 0 for none.
        seed: Seed of the drawn and of the held-out documents.
        num_proc: Number of processes for parsing. None: one.

    Returns:
        ``train``, and ``test`` unless ``test_size`` is 0, with the columns ``text``, ``name`` (dotted path of the
        documented object) and ``label`` (the package). Cached by ``datasets`` for the installed versions.

    Raises:
        ModuleNotFoundError: If a package is not installed.
        ValueError: If there are not more documents than ``test_size``.
    """
    import datasets

    folders = [_folder_of(package) for package in packages]
    distributions = importlib.metadata.packages_distributions()
    versions = [importlib.metadata.version(distributions.get(name, [name])[0]) for name in packages]
    documents = datasets.Dataset.from_generator(
        _documents,
        gen_kwargs={"packages": list(packages), "folders": folders, "versions": versions},
        features=datasets.Features(
            text=datasets.Value("string"),
            name=datasets.Value("string"),
            label=datasets.ClassLabel(names=list(packages)),
        ),
        num_proc=None if num_proc is None else min(num_proc, len(packages)),
    )
    chosen: list[int] = []
    taken = [0] * len(packages)
    seen = set()
    shuffled = documents.shuffle(seed=seed)
    for index, (label, text) in enumerate(zip(shuffled["label"], shuffled["text"], strict=True)):
        if taken[label] < DOCUMENTS_PER_PACKAGE and text not in seen:
            taken[label] += 1
            seen.add(text)
            chosen.append(index)
    if test_size >= len(chosen):
        raise ValueError(f"There are {len(chosen)} documents, too few to hold out {test_size}: lower test_size.")
    kept = shuffled.select(chosen)
    return kept.train_test_split(test_size=test_size, seed=seed) if test_size else datasets.DatasetDict(train=kept)


def _folder_of(package: str) -> str:
    """The folder of an installed package."""
    specification = importlib.util.find_spec(package)
    if specification is None or not specification.submodule_search_locations:
        raise ModuleNotFoundError(f"The package {package!r} is not installed, so its documentation cannot be read.")
    return specification.submodule_search_locations[0]


def _documents(packages: list[str], folders: list[str], versions: list[str]) -> Iterator[dict[str, object]]:
    """Rows of the corpus. ``datasets`` names its cache after the arguments, so ``versions`` is one of them."""
    for package, folder in zip(packages, folders, strict=True):
        root = Path(folder)
        for file in sorted(root.rglob("*.py")):
            module = ".".join(file.relative_to(root.parent).with_suffix("").parts)
            for name, text in _docstrings(file.read_text(encoding="utf-8", errors="replace"), module):
                yield {"text": text, "name": name, "label": package}


def _docstrings(source: str, module: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each documented object in a source file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # invalid escape sequences in the packages
            tree = ast.parse(source)
    except SyntaxError:
        return  # a template, or source for another version of Python
    stack: list[tuple[str, ast.AST]] = [(module, tree)]
    while stack:
        name, node = stack.pop()
        text = ast.get_docstring(node)
        if text is not None and len(text.split()) >= MINIMUM_WORDS:
            yield name, unwrap_paragraphs(text)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                stack.append((f"{name}.{child.name}", child))


def unwrap_paragraphs(text: str) -> str:
    """Join the hard-wrapped lines of paragraphs, but not lines of code, lists and headings."""
    paragraphs: list[str] = []
    for line in text.split("\n"):
        previous = paragraphs[-1] if paragraphs else ""
        if line.strip() and previous.strip() and line[:1].isalnum() and not previous[:1].isspace():
            paragraphs[-1] = f"{previous} {line}"
        else:
            paragraphs.append(line)
    return "\n".join(paragraphs)
