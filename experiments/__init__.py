"""The papers' experiments, on top of ``docsplit_hf.evaluation``; not a part of the package."""
