"""The scripts of examples/ travel in the package, for the command ``docsplit``; all else is in setup.cfg."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["docsplit_hf*"]), "docsplit_hf.examples"],
    package_dir={"docsplit_hf.examples": "examples"},
)
