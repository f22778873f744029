"""Benchmarks of quality: accuracy, rejection, audits, suggestions."""
