"""``/v1/embeddings`` as OpenAI has it."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response

from ..bodies import parsed
from ..errors import unprocessable
from ..schemas import EmbeddingsRequest
from ..server import Server
from ..states import State
from .documented import documented


def add_embeddings(app: FastAPI, server: Server) -> None:
    """Add the address of embeddings."""
    for_readers = [Depends(server.access.check_reader)]

    @app.post("/v1/embeddings", tags=["answers"], dependencies=for_readers, openapi_extra=documented(EmbeddingsRequest))
    async def embeddings(request: Request) -> Response:
        """Embed texts by the encoder of a classifier; embeddings have norm 1."""
        body = await parsed(request, EmbeddingsRequest, server)
        texts = [body.input] if isinstance(body.input, str) else body.input
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise unprocessable("input must be a text or a list of texts: lists of tokens are not taken.", "input")
        if not all(text.strip() for text in texts):
            raise unprocessable("input has an empty text.", "input", "empty")
        classifier = server.classifier(body.model)
        _check_dimensions(body.dimensions, classifier.state)
        state, results = await server.read(classifier, texts, [None] * len(texts), None, request=request)
        vectors = np.concatenate([result.embedded.retrieval_embeddings for result in results])
        vectors = _normalized(vectors[:, : body.dimensions])
        encoded: list[Any] = vectors.tolist()
        if body.encoding_format == "base64":
            encoded = [base64.b64encode(vector.tobytes()).decode() for vector in vectors]
        data = [{"object": "embedding", "index": row, "embedding": one} for row, one in enumerate(encoded)]
        tokens = sum(result.token_count for result in results)
        return JSONResponse(
            {
                "object": "list",
                "data": data,
                "model": classifier.name,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "x_version": state.version,
            }
        )


def _check_dimensions(dimensions: int | None, state: State) -> None:
    """Refuse another number of dimensions than the encoder's."""
    size = state.embedding_size()
    if dimensions not in (None, size):
        raise unprocessable(f"dimensions={dimensions}: this encoder gives {size}.", "dimensions", "dimensions")


def _normalized(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(norms, 1e-12)).astype("<f4")
