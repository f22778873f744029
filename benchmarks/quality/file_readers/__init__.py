"""Compare readers of files on files whose text is known, and on real ones."""
