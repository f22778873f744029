"""Pretraining: views of documents, collator, model, losses and trainers of DocSplit and its baselines."""
