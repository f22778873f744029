"""Fine-tuning of a classifier with a decoupled representation (Liang et al. 2023)."""
