"""The nearest keys: exact, grouped by document, or by an index."""
