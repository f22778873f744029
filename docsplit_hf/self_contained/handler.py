"""What Hugging Face's Inference Endpoints call: answers of the pipeline that lies beside this file. It travels."""

from __future__ import annotations

from typing import Any

from transformers import pipeline


class EndpointHandler:
    """Classifies ``{"inputs": texts, "parameters": {"top_k": 3}}``; the parameters are those of a call."""

    def __init__(self, path: str = "") -> None:
        self.pipeline = pipeline(model=path, trust_remote_code=True)  # the repository is the endpoint's own

    def __call__(self, data: dict[str, Any]) -> list[Any]:
        """The answers, which can be written as JSON."""
        return self.pipeline(data["inputs"], **data.get("parameters") or {})
