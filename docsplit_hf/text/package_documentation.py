"""The embedded corpus: the documentation of Python packages that are installed anyway."""

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

DOCUMENTATION = "documentation"  # its name on the command line
PACKAGES = ("accelerate", "datasets", "huggingface_hub", "numpy", "pandas", "torch", "transformers")
MINIMUM_WORDS = 60  # long enough that both halves of a document say something
DOCUMENTS_PER_PACKAGE = 1000  # so that no package outweighs the others


def load_package_documentation(
    packages: tuple[str, ...] = PACKAGES, test_size: int = 500, seed: int = 0, num_proc: int | None = None
) -> DatasetDict:
    """Docstrings of installed packages as documents: real text, present on every machine, labeled by package.

    The docstrings of modules, classes and functions with at least 60 words are read from the source files, which are
    parsed and never imported. Repeated ones are left out, and at most 1,000 are drawn from each package. The corpus
    depends on the versions of the packages that are installed.

    Args:
        packages: Names of the packages to read, as they are imported.
        test_size: Number of held-out documents; 0 for none.
        seed: Decides which documents are drawn and which are held out.
        num_proc: Number of processes to parse with. None is one.

    Returns:
        ``train``, and ``test`` if any are held out, with the columns ``text``, ``name`` (dotted path of what is
        documented) and ``label`` (the package). Cached by ``datasets`` for the versions at hand.

    Raises:
        ModuleNotFoundError: If a package is not installed.
        ValueError: If there are no more documents than are to be held out.
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
    taken, seen = [0] * len(packages), set()
    shuffled = documents.shuffle(seed=seed)
    for index, (label, text) in enumerate(zip(shuffled["label"], shuffled["text"], strict=True)):
        if taken[label] < DOCUMENTS_PER_PACKAGE and text not in seen:
            taken[label] += 1
            seen.add(text)
            chosen.append(index)
    if test_size >= len(chosen):
        raise ValueError(f"There are {len(chosen)} documents, and {test_size} are to be held out: hold out fewer.")
    kept = shuffled.select(chosen)
    return kept.train_test_split(test_size=test_size, seed=seed) if test_size else datasets.DatasetDict(train=kept)


def _folder_of(package: str) -> str:
    specification = importlib.util.find_spec(package)
    if specification is None or not specification.submodule_search_locations:
        raise ModuleNotFoundError(f"The package {package!r} is not installed, so its documentation cannot be read.")
    return specification.submodule_search_locations[0]


def _documents(packages: list[str], folders: list[str], versions: list[str]) -> Iterator[dict[str, object]]:
    """``versions`` is part of the arguments because ``datasets`` names its cache after them."""
    for package, folder in zip(packages, folders, strict=True):
        root = Path(folder)
        for file in sorted(root.rglob("*.py")):
            module = ".".join(file.relative_to(root.parent).with_suffix("").parts)
            for name, text in _docstrings(file.read_text(encoding="utf-8", errors="replace"), module):
                yield {"text": text, "name": name, "label": package}


def _docstrings(source: str, module: str) -> Iterator[tuple[str, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # other people's escape sequences
            tree = ast.parse(source)
    except SyntaxError:
        return  # templates and sources for other versions of Python that packages carry along
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
    """Join the hard-wrapped lines of paragraphs, and not those of code, lists and headings."""
    paragraphs: list[str] = []
    for line in text.split("\n"):
        previous = paragraphs[-1] if paragraphs else ""
        if line.strip() and previous.strip() and line[:1].isalnum() and not previous[:1].isspace():
            paragraphs[-1] = f"{previous} {line}"
        else:
            paragraphs.append(line)
    return "\n".join(paragraphs)
