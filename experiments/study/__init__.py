"""The study: one start, many ways to train it, measured alike."""
