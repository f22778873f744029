"""List the size, the license and the dependencies of readers of files.

    python -m benchmarks.quality.file_readers.sizes --packages packages

``--packages`` has a folder for each library, made by ``pip install --target``.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import Distribution, distributions
from pathlib import Path

from .compare import RESULTS

# The metadata of kreuzberg still have MIT, which it left with version 4.8; those of odfpy list three to choose from.
LICENSES = {"kreuzberg": "Elastic 2.0", "odfpy": "Apache 2.0"}


def megabytes(distribution: Distribution) -> float:
    """The size of the files of a package."""
    paths = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
    return sum(path.stat().st_size for path in paths if path.exists()) / 1e6


def license_of(distribution: Distribution) -> str:
    """The license that a package declares."""
    if distribution.name in LICENSES:
        return LICENSES[distribution.name]
    metadata = distribution.metadata
    return metadata.get("License-Expression") or (metadata.get("License") or "").partition("\n")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True)
    arguments = parser.parse_args()
    records = {}
    for folder in sorted(path for path in arguments.packages.iterdir() if path.is_dir()):
        found = list(distributions(path=[str(folder)]))
        sizes = [megabytes(distribution) for distribution in found]
        for distribution, size in zip(found, sizes, strict=True):
            is_main = distribution.name.lower() == folder.name.lower()
            if is_main or folder.name == "files":
                records[distribution.name] = {
                    "version": distribution.version,
                    "license": license_of(distribution),
                    "packages": len(found) if is_main else 1,
                    "megabytes": sum(sizes) if is_main else size,
                }
    (RESULTS / "packages.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
