"""The page to try docsplit_hf on: ``docsplit-demo``, or ``python -m docsplit_hf.demo``."""
