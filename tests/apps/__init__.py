"""Tests of docsplit_hf/apps."""
