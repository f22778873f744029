"""Schemas of requests for the OpenAPI page."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def documented(model: type[BaseModel]) -> dict[str, Any]:
    """The part of the OpenAPI page for a body that is read by ``parsed``."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _inlined(model)}}}}


def _inlined(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a body, with its parts in place of references."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return resolve(parts[value["$ref"].rpartition("/")[2]])
            return {name: resolve(one) for name, one in value.items()}
        if isinstance(value, list):
            return [resolve(one) for one in value]
        return value

    return resolve(schema)
