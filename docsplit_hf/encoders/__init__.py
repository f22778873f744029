"""Encoders, whoever trains them."""
