"""Parts of ``docsplit label``: its files, the state after each key, the screen, and the classifier that learns."""
