"""The paper's mixture of a classifier and its nearest neighbors, and how it is calibrated."""
