"""Examples and documents as arrays; neither torch nor transformers is imported."""
