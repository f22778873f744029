"""Pretraining: views of documents, collator, model, losses and trainer of DocSplit; distillation."""
