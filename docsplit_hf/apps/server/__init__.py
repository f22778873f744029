"""Classifiers behind an address: ``docsplit serve``, an HTTP server for other programs."""
