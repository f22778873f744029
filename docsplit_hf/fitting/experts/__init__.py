"""The experts (members of the ensemble), and what they learn from."""
