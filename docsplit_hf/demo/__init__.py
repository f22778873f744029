"""The page to try docsplit_hf on."""
