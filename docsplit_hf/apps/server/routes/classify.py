"""``/v1/classify``: answers as the pipeline gives them, of texts and of files."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from pathlib import Path

from fastapi import Depends, FastAPI, Request
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from ....fitting.prediction import with_unreadable
from ....reading.files.failures import EMPTY, FailedFile, UnreadableFile, failed_file
from ..bodies import call_options_of, documented, form_options, limited_body, parsed
from ..errors import unprocessable
from ..schemas import ClassifyRequest
from ..server import Server

SUFFIX = re.compile(r"\.\w{1,10}")
LONGEST_UPLOAD_NAME = 200  # characters


def add_classify(app: FastAPI, server: Server) -> None:
    """Add the address of answers."""
    for_readers = [Depends(server.access.check_reader)]

    @app.post("/v1/classify", tags=["answers"], dependencies=for_readers, openapi_extra=documented(ClassifyRequest))
    async def classify(request: Request) -> Response:
        """Classify texts; or files, as multipart/form-data: one that cannot be read gets the reason as its answer."""
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
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
        files = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
        if not files:
            raise unprocessable('Upload a file in the field "file".', "file", "missing")
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        classifier = server.classifier(fields.pop("model", None))
        options = call_options_of(form_options(fields), server)
        read = [await loop.run_in_executor(server.file_threads, text_of_upload, file) for file in files]
        names = [name_of(file) for file in files]
    texts = [one for one in read if isinstance(one, str)]
    if not texts:
        sentences = [str(UnreadableFile.of(one)) for one in read]
        raise unprocessable(" ".join(sentences), "file", "unreadable_file")
    state = classifier.state
    found = await server.read(classifier, state, texts, [None] * len(texts), options, request)
    content = {
        "model": classifier.name,
        "version": state.version,
        "files": names,
        "answers": with_unreadable(read, found.answers(), best_only="top_k" not in options),
    }
    return JSONResponse(content)


def name_of(upload: UploadFile) -> str:
    """The name of an uploaded file, without folders."""
    return Path((upload.filename or "").replace("\\", "/")).name[:LONGEST_UPLOAD_NAME] or "file"


def text_of_upload(upload: UploadFile) -> str | FailedFile:
    """Read an uploaded file. Its name gives the suffix, but names no path here."""
    from ....reading.files.reader import read_file  # here, as a server starts without it

    name = name_of(upload)
    suffix = Path(name).suffix
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"upload{suffix if SUFFIX.fullmatch(suffix) else ''}")
        with path.open("wb") as copy:
            shutil.copyfileobj(upload.file, copy)
        try:
            text = read_file(path).text
        except UnreadableFile as error:
            return FailedFile(name, error.reason, error.remedy, error.detail.replace(str(path), name))
    return text if text.strip() else failed_file(name, EMPTY)
