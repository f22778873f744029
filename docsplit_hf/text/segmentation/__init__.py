"""Texts into sentences and tokens."""
