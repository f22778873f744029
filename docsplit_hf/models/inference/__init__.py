"""Texts into embeddings."""
