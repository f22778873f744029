"""Ensemble of experts, for few labels and many documents: fitting, weighing, scoring and explaining."""
