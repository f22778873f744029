"""Ensemble for few labels and many documents: fitting, weighing, scoring and explaining.

The members of the ensemble are called experts. Each expert gives logits of the labels from one view of a text, such as
its words or its nearest neighbors; a weighted sum of the logits gives the probabilities (``log_linear_pool.py``).
"""
