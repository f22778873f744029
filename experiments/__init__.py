"""The papers' experiments, on top of ``experiments.evaluation``; not a part of the package."""
