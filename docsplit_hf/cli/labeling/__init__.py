"""Parts of ``docsplit label``: files, state after each key, screen, and updates of the classifier."""
