"""``/v1/classify``: answers as the pipeline gives them, of texts and of files."""

from __future__ import annotations

import asyncio

from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from ....fitting.prediction import with_unreadable
from ....reading.files.failures import FailedFile, UnreadableFile
from ..bodies import call_options_of, documented, form_options, parsed
from ..body_limits import limited_body
from ..errors import unprocessable
from ..schemas import ClassifyRequest
from ..server import Server
from ..uploads import UPLOADED, FileOfText, text_of_upload, upload_of


def add_classify(app: FastAPI, server: Server) -> None:
    """Add the address of answers."""
    for_readers = [Depends(server.access.check_reader)]

    @app.post("/v1/classify", tags=["answers"], dependencies=for_readers, openapi_extra=documented(ClassifyRequest))
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
        state = classifier.state
        content = {"model": classifier.name, "version": state.version, "answers": []}
        if texts:
            read = await server.read(classifier, state, texts, pairs, call_options_of(body, server), request)
            content["answers"] = await asyncio.to_thread(read.answers)
            content["usage"] = {"input_tokens": read.token_count, "output_tokens": 0}
        return JSONResponse(content)


async def _classify_files(request: Request, server: Server) -> Response:
    """Answer uploaded files; options are further fields of the form."""
    loop = asyncio.get_running_loop()
    limits = server.settings.limits
    body = await limited_body(request, limits, limits.file_megabytes)

    async def replay() -> Message:
        return {"type": "http.request", "body": body}

    async with Request(request.scope, replay).form(max_files=limits.files, max_fields=50) as form:
        upload = upload_of(form)
        options = call_options_of(form_options(upload.options), server)
        classifier = server.classifier(upload.model)
        files = [await loop.run_in_executor(server.file_threads, text_of_upload, file) for file in upload.files]
    texts = [one.text for one in files if isinstance(one, FileOfText)]
    if not texts:
        sentences = [str(UnreadableFile.of(one)) for one in files]
        raise unprocessable(" ".join(sentences), "file", "unreadable_file")
    state = classifier.state
    read = await server.read(classifier, state, texts, [None] * len(texts), options, request)
    content = {
        "model": classifier.name,
        "version": state.version,
        "files": [one.file if isinstance(one, FailedFile) else one.name for one in files],
        "answers": with_unreadable(files, read.answers(), best_only="top_k" not in options),
    }
    return JSONResponse(content)
