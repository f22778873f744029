"""Folders of files that are replaced at one moment, through no link; neither torch nor transformers is imported."""
