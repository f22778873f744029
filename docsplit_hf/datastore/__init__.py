"""Stores for examples and documents: rows, index, files, and a server."""
