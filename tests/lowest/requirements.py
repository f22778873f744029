"""The lowest version of each requirement that setup.cfg allows, a line each, as pip's --constraint takes them.

python tests/lowest/requirements.py > lowest.txt
"""

import configparser
import re
from pathlib import Path

SETUP = Path(__file__).parents[2] / "setup.cfg"
_LOWEST = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*>=\s*(?P<version>[0-9][0-9.]*)")


def lowest_versions(setup: str) -> dict[str, str]:
    """What ``install_requires`` of a setup.cfg asks for at least, by name; a requirement without a bound is refused."""
    parser = configparser.ConfigParser()
    parser.read_string(setup)
    lines = [line.strip() for line in parser["options"]["install_requires"].splitlines()]
    versions = {}
    for line in lines:
        if not line or line.startswith("#"):
            continue
        found = _LOWEST.fullmatch(line)
        if found is None:
            raise ValueError(f"{line!r} of install_requires has no lower bound: write it as 'name >= version'.")
        versions[found["name"]] = found["version"]
    return versions


if __name__ == "__main__":
    for name, version in lowest_versions(SETUP.read_text()).items():
        print(f"{name}=={version}")
