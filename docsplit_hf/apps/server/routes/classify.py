"""``/v1/classify``: answers as the pipeline gives them, of texts and of files."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from ....fitting.prediction import with_unreadable
from ....reading.files.failures import FailedFile, UnreadableFile
from ..batching import ReadTexts
from ..bodies import call_options_of, parsed, parsed_json
from ..body_limits import limited_body
from ..errors import unprocessable
from ..schemas import AnswerOptions, ClassifyRequest
from ..server import Server
from ..uploads import UPLOADED, FileOfText, text_of_upload, upload_of
from .documented import documented

CLASSIFY = "/v1/classify"


def add_classify(app: FastAPI, server: Server) -> None:
    """Add the address of answers."""
    for_readers = [Depends(server.access.check_reader)]

    @app.post(CLASSIFY, tags=["answers"], dependencies=for_readers, openapi_extra=documented(ClassifyRequest))
    async def classify(request: Request) -> Response:
        """Classify texts; or files, as multipart/form-data: one that cannot be read gets the reason as its answer."""
        if request.headers.get("content-type", "").startswith(UPLOADED):
            return await _classify_files(request, server)
        body = await parsed(request, ClassifyRequest, server)
        if (body.text is None) == (body.texts is None):
            raise unprocessable("Give either text or texts.", "texts")
        given = [body.text] if body.texts is None else body.texts
        texts = [one if isinstance(one, str) else one.text for one in given]
        pairs = [None if isinstance(one, str) else one.text_pair for one in given]
        classifier = server.classifier(body.model)
        if not texts:
            content = {"model": classifier.name, "version": classifier.state.version, "answers": []}
            return JSONResponse(content)
        state, results = await server.read(classifier, texts, pairs, call_options_of(body, server), request=request)
        answers = await asyncio.to_thread(_answers, results) if len(texts) > 100 else _answers(results)
        tokens = sum(result.token_count for result in results)
        return JSONResponse(
            {
                "model": classifier.name,
                "version": state.version,
                "answers": answers,
                "usage": {"input_tokens": tokens, "output_tokens": 0},
            }
        )


def _answers(results: list[ReadTexts]) -> list[Any]:
    """The answers to all texts of a request."""
    return [result.predicted.answer(result.first_row + row) for result in results for row in range(result.text_count)]


async def _classify_files(request: Request, server: Server) -> Response:
    """Answer uploaded files; options are further fields of the form."""
    loop = asyncio.get_running_loop()
    limits = server.settings.limits
    body = await limited_body(request, limits, limits.file_megabytes)

    async def replay() -> Message:
        return {"type": "http.request", "body": body}

    async with Request(request.scope, replay).form(max_files=limits.files, max_fields=50) as form:
        upload = upload_of(form)
        options = call_options_of(parsed_json(json.dumps(_typed(upload.options)).encode(), AnswerOptions), server)
        classifier = server.classifier(upload.model)
        read = [await loop.run_in_executor(server.file_threads, text_of_upload, file) for file in upload.files]
    texts = [one.text for one in read if isinstance(one, FileOfText)]
    if not texts:
        sentences = [str(UnreadableFile(one.file, one.reason, one.remedy, one.detail)) for one in read]
        raise unprocessable(" ".join(sentences), "file", "unreadable_file")
    state, results = await server.read(classifier, texts, [None] * len(texts), options, request=request)
    content = {
        "model": classifier.name,
        "version": state.version,
        "files": [one.file if isinstance(one, FailedFile) else one.name for one in read],
        "answers": with_unreadable(read, _answers(results), best_only="top_k" not in options),
    }
    return JSONResponse(content)


def _typed(query: dict[str, str]) -> dict[str, Any]:
    """Values of a form as JSON: numbers, true and false; other values are text."""
    typed: dict[str, Any] = {}
    for name, value in query.items():
        try:
            typed[name] = json.loads(value[:100])
        except ValueError:
            typed[name] = value
    return typed
