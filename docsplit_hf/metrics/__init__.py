"""Metrics of classification and retrieval, as modules of ``evaluate`` that need no network."""
