"""``/v1/classify``: answers as the pipeline gives them, of batches, files and streams."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from ....fitting.prediction import with_unreadable
from ....reading.files.failures import FailedFile, UnreadableFile
from ..batching import ReadTexts
from ..bodies import call_options_of, parsed, parsed_json
from ..body_limits import limited_body
from ..errors import Refused, unprocessable
from ..schemas import AnswerOptions, ClassifyLine, ClassifyRequest
from ..server import Server
from ..streams import DuplexResponse, check_line, lines_of, wait_while_connected
from ..uploads import UPLOADED, FileOfText, text_of_upload, upload_of
from .documented import documented

CLASSIFY = "/v1/classify"
STREAMED = "application/x-ndjson"
STREAM_AHEAD = 64  # lines that are read while earlier ones are computed


def add_classify(app: FastAPI, server: Server) -> None:
    """Add the address of answers."""
    for_readers = [Depends(server.access.check_reader)]

    @app.post(CLASSIFY, tags=["answers"], dependencies=for_readers, openapi_extra=documented(ClassifyRequest))
    async def classify(request: Request) -> Response:
        """Classify texts. As application/x-ndjson, lines of {"text": ...} are answered while they arrive; options are \
then in the query. As multipart/form-data, files are read; one that cannot be read gets the reason as its answer."""
        if request.headers.get("content-type", "").startswith(STREAMED):
            return await _classify_stream(request, server)
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
        sentences = [str(UnreadableFile.of(one)) for one in read]
        raise unprocessable(" ".join(sentences), "file", "unreadable_file")
    state, results = await server.read(classifier, texts, [None] * len(texts), options, request=request)
    content = {
        "model": classifier.name,
        "version": state.version,
        "files": [one.file if isinstance(one, FailedFile) else one.name for one in read],
        "answers": with_unreadable(read, _answers(results), best_only="top_k" not in options),
    }
    return JSONResponse(content)


async def _classify_stream(request: Request, server: Server) -> Response:
    """Answer lines of JSON by lines of JSON, in their order."""
    query = dict(request.query_params)
    name = query.pop("model", None)
    options = call_options_of(parsed_json(json.dumps(_typed(query)).encode(), AnswerOptions), server)
    classifier = server.classifier(name)
    state = classifier.state  # of all answers of a stream

    async def answer(line: bytes, number: int) -> dict[str, Any]:
        check_line(line, number)
        given = parsed_json(line, ClassifyLine)
        _, results = await server.read(classifier, [given.text], [given.text_pair], options, state)
        content: dict[str, Any] = {"version": state.version, "answer": _answers(results)[0]}
        return content if given.id is None else {"id": given.id, **content}

    async def lines() -> AsyncIterator[bytes]:
        running: deque[asyncio.Task[dict[str, Any]]] = deque()
        try:
            number = 0
            async for line in lines_of(request, server.settings.limits):
                number += 1
                running.append(asyncio.create_task(answer(line, number)))
                while running and (len(running) > STREAM_AHEAD or running[0].done()):
                    yield await _line_of(running.popleft())
            while running:
                await wait_while_connected(request, running[0])
                yield await _line_of(running.popleft())
        except Refused as refused:  # the head of the response is sent already
            yield _json_line(refused.body())
        finally:
            for task in running:
                task.cancel()

    return DuplexResponse(lines(), media_type=STREAMED)


def _typed(query: dict[str, str]) -> dict[str, Any]:
    """Values of a query as JSON: numbers, true and false; other values are text."""
    typed: dict[str, Any] = {}
    for name, value in query.items():
        try:
            typed[name] = json.loads(value[:100])
        except ValueError:
            typed[name] = value
    return typed


async def _line_of(task: asyncio.Task[dict[str, Any]]) -> bytes:
    """The answer to a line, or its error."""
    try:
        return _json_line(await task)
    except Refused as refused:
        return _json_line(refused.body())


def _json_line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"
