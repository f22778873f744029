"""Tests of docsplit_hf/connectors."""
