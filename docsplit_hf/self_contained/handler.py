"""Handler for Hugging Face's Inference Endpoints, which is saved with a pipeline."""

from __future__ import annotations

from typing import Any

from transformers import pipeline


class EndpointHandler:
    """Classify ``{"inputs": texts, "parameters": {"top_k": 3}}``; the parameters are those of a call."""

    def __init__(self, path: str = "") -> None:
        self.pipeline = pipeline(model=path, trust_remote_code=True)  # safe: it is the endpoint's own repository

    def __call__(self, data: dict[str, Any]) -> list[Any]:
        """Return the answers, which are valid JSON, to a request, given as parsed JSON."""
        return self.pipeline(data["inputs"], **data.get("parameters") or {})
