"""How good embeddings are, as functions of tensors."""
