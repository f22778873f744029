"""The command ``docsplit`` of an installation. Its import tells docsplit_hf to import transformers only when needed."""

from docsplit_hf.__main__ import main

__all__ = ["main"]
