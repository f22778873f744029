"""The commands of ``docsplit``: a module each, and its arguments beside it."""
