"""From embeddings and labels to a fitted ensemble and its answers; neither torch nor transformers is imported."""
