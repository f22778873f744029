"""Pipeline of a self-contained repository, which transformers imports with ``trust_remote_code=True``.

This file is copied into repositories. It does not import docsplit_hf at the top, because transformers checks the
imports of a file before running it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from transformers import TextClassificationPipeline

PACKAGE = "docsplit_hf"


class SelfContainedPipeline(TextClassificationPipeline):
    """Make a ``KNNClassifierPipeline`` by the installed docsplit_hf, or else by the copy in the repository."""

    def __new__(cls, model: Any, *arguments: Any, **kwargs: Any) -> Any:
        """Return a pipeline of docsplit_hf, not of this class."""
        name = model.config.name_or_path
        if Path(name).is_dir():
            folder = Path(name, PACKAGE)
        else:
            # transformers names the folder of this code after the commit.
            model.loaded_revision = Path(__file__).parent.name
            folder = None
        try:
            package = importlib.import_module(PACKAGE)
        except ModuleNotFoundError:
            package = _import_from(folder or _download(name, model.loaded_revision))
        return package.KNNClassifierPipeline(model, *arguments, **kwargs)


def _download(name: str, commit: str) -> Path:
    """Download the copy of docsplit_hf in a repository."""
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, revision=commit, allow_patterns=f"{PACKAGE}/*"), PACKAGE)


def _import_from(folder: Path) -> Any:
    """Import the package from its folder, without making other files there importable."""
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    package = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(package)
    except BaseException:
        del sys.modules[PACKAGE]
        raise
    return package
