"""Classifiers whose model runs in ONNX Runtime: exported once with torch, opened without torch and transformers."""
