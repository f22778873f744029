"""Segment texts into sentences and tokens."""
