"""Readers of the formats of files, and what they share: OCR, cleaning, zip files."""
