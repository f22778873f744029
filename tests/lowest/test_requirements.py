"""The pins of make test-lowest come from setup.cfg alone."""

import importlib.metadata

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from .requirements import SETUP, lowest_versions


def test_each_requirement_of_the_package_has_a_lower_bound_that_is_met_here():
    versions = lowest_versions(SETUP.read_text())
    declared = [Requirement(line) for line in importlib.metadata.requires("docsplit_hf")]
    assert set(versions) == {requirement.name for requirement in declared if requirement.marker is None}
    for name, version in versions.items():
        assert Version(importlib.metadata.version(name)) >= Version(version)


def test_a_requirement_without_a_bound_is_refused():
    lines = "[options]\ninstall_requires =\n    # why\n    numpy >= 2.0\n    {}\n"
    assert lowest_versions(lines.format("faiss-cpu>=1.12")) == {"numpy": "2.0", "faiss-cpu": "1.12"}
    with pytest.raises(ValueError, match="'tqdm' of install_requires has no lower bound"):
        lowest_versions(lines.format("tqdm"))
