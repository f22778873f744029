"""Audit of the examples: wrong labels, duplicates, outliers and confused labels."""
