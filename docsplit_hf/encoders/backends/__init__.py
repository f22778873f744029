"""Backends that compute an encoder: torch, OpenVINO, or a server."""
