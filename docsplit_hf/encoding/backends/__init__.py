"""Backends that run an encoder: torch, OpenVINO, or a server."""
