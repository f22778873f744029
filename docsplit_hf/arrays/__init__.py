"""Arrays of examples and documents, without torch or transformers."""
