"""The small installation asks for what setup.cfg asks for, and for no more than 250 MB."""

import configparser
import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "serving" / "requirements-light.txt"
WITHOUT_DEPENDENCIES = ("huggingface_hub", "tokenizers")  # as the file says
MOST_BYTES = 250e6


def light_requirements():
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    return [Requirement(line) for line in lines]


def test_versions_are_those_of_the_whole_installation():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    sections = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    lines = [line for section in sections for line in section.splitlines() if line and not line.startswith("#")]
    known = {}
    for line in lines:
        requirement = Requirement(line)
        known.setdefault(requirement.name.lower(), requirement.specifier)
    for requirement in light_requirements():
        assert requirement.specifier == known.get(requirement.name.lower(), ""), requirement.name


def with_dependencies(names):
    """The names of packages and of all that they depend on."""
    found = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def test_it_is_small_and_lacks_what_is_large():
    names = with_dependencies(requirement.name for requirement in light_requirements())
    assert not names & {"torch", "transformers", "scipy", "scikit-learn", "pandas", "pyarrow", "faiss-cpu", "datasets"}
    size = 0
    for name in {*names, *WITHOUT_DEPENDENCIES}:
        files = importlib.metadata.files(name)
        if files is None:
            pytest.skip(f"pip has not listed the files of {name}")
        places = [Path(file.locate()) for file in files]
        size += sum(place.stat().st_size for place in places if place.is_file())
    own = [path for path in (ROOT / "docsplit_hf").rglob("*") if path.is_file()]
    size += sum(path.stat().st_size for path in own)
    assert size < MOST_BYTES
