"""Text in, integer tensors out."""
