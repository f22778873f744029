"""The documentation, and ``python -m docs.figures``, which writes its figures."""
