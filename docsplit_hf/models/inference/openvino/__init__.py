"""Encoders that OpenVINO computes."""
