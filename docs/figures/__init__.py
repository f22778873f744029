"""The figures of the pages, computed from the records in docs/results: one module for a page or a few related ones."""
