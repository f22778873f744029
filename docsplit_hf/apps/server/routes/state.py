"""Models, health, readiness and metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import Depends, FastAPI
from prometheus_client import generate_latest
from starlette.responses import JSONResponse, Response

from ..served_folders import ServedFolder
from ..server import Server

# Routes take requests and return responses: for a value of another type, FastAPI imports the first pydantic, too.


def add_state_routes(app: FastAPI, server: Server) -> None:
    """Add the addresses of models, health, readiness and metrics."""
    for_readers = [Depends(server.access.check_reader)]

    @app.get("/health", tags=["state"])
    async def health() -> Response:
        """Whether the process lives."""
        return JSONResponse({"status": "ok"})

    @app.get("/ready", tags=["state"])
    async def ready() -> Response:
        """The versions that answer; a server that starts or stops takes no connections."""
        versions = {name: classifier.state.version for name, classifier in server.classifiers.items()}
        return JSONResponse({"status": "ready", "versions": versions})

    @app.get("/metrics", tags=["state"], dependencies=for_readers)
    async def metrics() -> Response:
        """Counters in Prometheus' format."""
        return Response(generate_latest(server.metrics.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models", tags=["state"], dependencies=for_readers)
    async def models() -> Response:
        """The classifiers, as OpenAI (data) and TypeSafe (models) list them."""
        described = [_described(classifier) for classifier in server.classifiers.values()]
        return JSONResponse({"object": "list", "data": described, "models": described})


def _described(classifier: ServedFolder) -> dict[str, Any]:
    state = classifier.state
    created = classifier.opened_at
    store = state.pipe.datastore
    return {
        "id": classifier.name,
        "object": "model",
        "created": int(created),
        "owned_by": "docsplit_hf",
        "name": classifier.name,
        "description": f"A classifier with {len(store.label_names)} labels, fitted on {len(store):,} examples.",
        "release_date": datetime.fromtimestamp(created, UTC).date().isoformat(),
        "x_version": state.version,
        "x_labels": list(store.label_names),
        "x_examples": len(store),
        "x_fitted": store.fitted is not None,
        "x_multi_label": store.multi_label,
    }
