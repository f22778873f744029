"""Metrics of classification and retrieval."""
