"""make_app: the HTTP interface of a server, as an ASGI application."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import __version__
from ..classification.call_options import CallOptions, checked_options
from ..classification.label_tree import NO_LEVEL
from .access import Access, OwnHostOnly
from .batching import Batcher, ReadTexts
from .body_limits import STREAMED, LimitedBodies
from .classifiers import Classifier, State
from .decisions import (
    Labels,
    LabelScores,
    Question,
    openai_answer,
    openai_question,
    system_one_answer,
    system_one_question,
    text_of_input,
    text_of_state,
)
from .editing import Changes, Editor, NewExample, digest_of
from .editing import Request as EditRequest
from .errors import BAD_REQUEST, INTERNAL, NOT_FOUND, TYPES, UNAVAILABLE, UNPROCESSABLE, Refused, unprocessable
from .metrics import Metrics, RecentTexts
from .schemas import (
    AnswerOptions,
    ClassifyLine,
    ClassifyRequest,
    DecisionsRequest,
    EmbeddingsRequest,
    ExamplesRequest,
    FitRequest,
    SystemOneQuestion,
    SystemOneRequest,
)
from .settings import ServerSettings
from .streams import DuplexResponse, check_line, lines_of
from .uploads import UPLOADED, file_reader, text_of_upload, upload_of

logger = logging.getLogger(__name__)

Body = TypeVar("Body", bound=BaseModel)
DRIFT_REJECT = 0.05  # the error rate of drift reports, if the server has none
LONGEST_KEY = 200  # characters of an Idempotency-Key
CLIENT_HAS_GONE = 499  # as nginx counts it; no response was begun
ZERO_IS_OFF = ("return_neighbors", "return_documents")
STREAM_AHEAD = 64  # lines that are read while earlier ones are computed
# Names that clients send without having been given one: the first classifier answers.
DEFAULT_MODELS = ("jev-latest", "docsplit")
DESCRIPTION = """Classifiers fitted on your own documents, behind an address.

`/v1/classify` gives everything that a call of the pipeline gives. `/v1/systemone`, `/v1/decisions` and
`/v1/embeddings` are protocols that other programs speak. `/v1/examples`, `/v1/fit`, `/v1/suggest` and `/v1/audit` need
the token of an editor.
"""


class Server:
    """The parts of a running server."""

    def __init__(
        self, classifiers: dict[str, Classifier], settings: ServerSettings, access: Access, batcher: Batcher
    ) -> None:
        self.classifiers = classifiers
        self.settings = settings
        self.access = access
        self.batcher = batcher
        self.metrics = Metrics(batcher)
        self.recent = {name: RecentTexts(settings.drift_texts) for name in classifiers}
        self.editors: dict[str, Editor] = {}
        self.is_ready = False
        if access.editors:
            for name, classifier in classifiers.items():
                self.editors[name] = Editor(classifier, settings.limits)

    def close(self) -> None:
        """Finish the work under way."""
        self.is_ready = False
        for editor in self.editors.values():
            editor.close()
        self.batcher.stop()

    def classifier(self, name: str | None) -> Classifier:
        """The classifier that a request names; without a name, the first one."""
        if name is None or (name in DEFAULT_MODELS and name not in self.classifiers):
            return next(iter(self.classifiers.values()))
        found = self.classifiers.get(name)
        if found is None:
            known = ", ".join(self.classifiers)
            message = f"There is no classifier {name[:100]!r} here: {known}."
            raise Refused(NOT_FOUND, "model_not_found", message, "model")
        return found

    async def read(
        self,
        classifier: Classifier,
        texts: list[str],
        pairs: list[str | None],
        options: CallOptions | None,
        state: State | None = None,
    ) -> tuple[State, list[ReadTexts]]:
        """Read texts by the present state of a classifier, or by the given one, and count them."""
        self.check_texts(texts, pairs)
        state = state or classifier.state
        try:
            results = await self.batcher.read(state, texts, pairs, options)
        except (ValueError, TypeError) as error:
            raise unprocessable(classifier.without_paths(str(error))) from error
        self.metrics.texts.labels(classifier.name).inc(len(texts))
        if options is not None:
            self.recent[classifier.name].add(texts, pairs)
            if options.get("reject") is not None:
                self.metrics.count_rejections(classifier.name, _rejections(results))
        return state, results

    def check_texts(self, texts: list[str], pairs: list[str | None]) -> None:
        """Refuse too many texts, and texts that are too long."""
        limits = self.settings.limits
        if len(texts) > limits.texts:
            raise unprocessable(f"{len(texts):,} texts are too many at a time: send at most {limits.texts:,}.", "texts")
        for number, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
            length = len(text) + len(pair or "")
            if length > limits.characters:
                raise unprocessable(f"Text {number} has {length:,} characters: at most {limits.characters:,}.", "texts")

    def label_scores(self, result: ReadTexts, row: int) -> LabelScores:
        """What a classifier says of one text."""
        prediction = result.predicted.prediction
        row += result.first_row
        names = prediction.label_names
        rejection = prediction.rejection
        # A question is about labels: a parent in a tree of labels is no answer to it.
        is_rejected = None if rejection is None else bool(rejection.levels[row] < prediction.tree.level_count - 1)
        return LabelScores(
            probabilities=dict(zip(names, prediction.probabilities[row].tolist(), strict=True)),
            is_rejected=is_rejected,
            novelty=None if prediction.novelty is None else float(prediction.novelty[row]),
            reason="no content" if is_rejected and rejection.has_no_content[row] else None,
        )

    def decision_options(self, reject: float | None) -> CallOptions:
        """The options of answers to questions: the server's limits, or those of a request."""
        answers = self.settings.answers
        reject = answers.reject if reject is None else reject
        if reject is None:
            return {}
        return checked_options(reject=reject, novelty=answers.novelty)

    def labels(self, state: State) -> Labels:
        """The labels of a classifier, for questions."""
        return Labels(state.label_names, state.multi_label, self.settings.answers.reject_label)


def _rejections(results: list[ReadTexts]) -> list[bool]:
    """Whether each text was rejected."""
    rejected: list[bool] = []
    for result in results:
        levels = result.predicted.prediction.rejection.levels
        count = len(result.embedded.retrieval_embeddings)
        rejected += (levels[result.first_row : result.first_row + count] == NO_LEVEL).tolist()
    return rejected


async def parsed(request: Request, model: type[Body]) -> Body:
    """The body of a request, checked; errors name the field, and show no content."""
    return parsed_json(await request.body(), model)


def parsed_json(content: bytes, model: type[Body]) -> Body:
    """JSON, checked. pydantic's parser refuses JSON that is nested deeper than 200 levels."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "json_invalid":
            message = f"The body is not JSON that can be read: {first['msg']}."
            raise Refused(BAD_REQUEST if not content else UNPROCESSABLE, "json_invalid", message) from None
        place = f"{field[:200]}: " if field else ""
        raise unprocessable(f"{place}{first['msg']}.", field[:200] or None, first["type"]) from None


def options_of(request: AnswerOptions, server: Server) -> CallOptions:
    """The options of a call that a request asks for; where it does not mention rejection, those of the server."""
    given = request.model_dump(include=set(AnswerOptions.model_fields), exclude_none=True)
    for name in ZERO_IS_OFF:
        if given[name] == 0:
            del given[name]
    if "top_k" in given:
        given["top_k"] = given["top_k"] or None  # 0 asks for all labels
    answers = server.settings.answers
    if answers.reject is not None and not given.keys() & {"reject", "top_k"}:
        given["reject"] = answers.reject
        if answers.novelty is not None:
            given.setdefault("novelty", answers.novelty)
    try:
        return checked_options(**given)
    except (ValueError, TypeError) as error:
        raise unprocessable(str(error)) from None


def make_app(server: Server, host: str = "127.0.0.1", allowed_hosts: tuple[str, ...] = ()) -> FastAPI:
    """Make the application of a server.

    Args:
        server: Its parts.
        host: The address that it listens on, to which alone it answers.
        allowed_hosts: Other host names, such as a proxy's.

    Returns:
        The application; its start and end are those of the server.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(task) for task in _background_tasks(server)]
        server.is_ready = True
        yield
        server.is_ready = False
        for task in tasks:
            task.cancel()
        await asyncio.to_thread(server.close)

    app = FastAPI(title="docsplit serve", version=__version__, description=DESCRIPTION, lifespan=lifespan)
    _add_errors(app)
    _add_state_routes(app, server)
    _add_classify(app, server)
    _add_embeddings(app, server)
    _add_decisions(app, server)
    _add_edits(app, server)
    # The last one that is added comes first.
    app.add_middleware(LimitedBodies, limits=server.settings.limits)
    app.add_middleware(OwnHostOnly, server_host=host, allowed_hosts=allowed_hosts, command="docsplit serve")
    app.add_middleware(Counted, server=server)
    return app


def _background_tasks(server: Server) -> list[Any]:
    tasks = []
    if server.settings.reload_seconds:
        tasks.append(_reload_replaced(server))
    if server.settings.drift_seconds:
        tasks.append(_measure_drift(server))
    return tasks


async def _reload_replaced(server: Server) -> None:
    """Serve folders that other programs replace, from then on."""
    while True:
        await asyncio.sleep(server.settings.reload_seconds)
        for name, classifier in server.classifiers.items():
            try:
                editor = server.editors.get(name)
                if editor is not None:  # after the edits under way, which replace the folder, too
                    await asyncio.wrap_future(editor.run(editor.reload_if_replaced))
                elif await asyncio.to_thread(classifier.is_replaced):
                    await asyncio.to_thread(classifier.reload)
            except Exception as error:  # of any type: the old state goes on answering
                message = classifier.without_paths(str(error))
                logger.warning("%s was replaced in its folder, and cannot be loaded: %s", name, message)


async def _measure_drift(server: Server) -> None:
    """Measure the drift of the last texts from time to time."""
    reject = server.settings.answers.reject or DRIFT_REJECT
    while True:
        await asyncio.sleep(server.settings.drift_seconds)
        for name, recent in server.recent.items():
            await asyncio.to_thread(recent.measure, server.classifiers[name], server.metrics, reject)


class Counted:
    """ASGI middleware that counts requests, and answers errors that nothing else answers."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self.app = app
        self.server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = CLIENT_HAS_GONE

        async def counting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, counting_send)
        except Exception as error:  # of any type: a sentence, instead of a closed connection
            refused = _internal_error(error)
            if status != CLIENT_HAS_GONE:  # the head of the response is sent already, so the connection must be closed
                raise RuntimeError("A response was broken off.") from None
            await refused.response()(scope, receive, counting_send)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self.server.metrics.count_request(path, status, time.perf_counter() - begun)


def _internal_error(error: Exception) -> Refused:
    """Log where an error came from, but not its message, which may have texts; and make the answer."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " <- ".join(f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(frames[-6:]))
    logger.error("%s in %s", type(error).__name__, places)
    return Refused(INTERNAL, "internal_error", "The server failed to answer this request: its log says where.")


def _add_errors(app: FastAPI) -> None:
    async def refused(_: Request, error: Exception) -> Response:
        return error.response()

    async def http_error(_: Request, error: Exception) -> Response:
        known = {404: "There is nothing at this address: /docs lists what there is.", 405: "This address takes others."}
        message = known.get(error.status_code, str(error.detail))
        return Refused(error.status_code, TYPES.get(error.status_code, "http_error"), message).response()

    async def invalid(_: Request, error: Exception) -> Response:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:])
        return unprocessable(f"{field}: {first['msg']}.", field or None, first["type"]).response()

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid)


def _documented(model: type[BaseModel]) -> dict[str, Any]:
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


def _add_state_routes(app: FastAPI, server: Server) -> None:
    @app.get("/health", tags=["state"])
    async def health() -> dict[str, str]:
        """Whether the process lives."""
        return {"status": "ok"}

    @app.get("/ready", tags=["state"])
    async def ready() -> Response:
        """Whether requests are answered."""
        if not server.is_ready:
            return Refused(UNAVAILABLE, "not_ready", "The server is starting or stopping.", retry_after=1).response()
        versions = {name: classifier.state.version for name, classifier in server.classifiers.items()}
        return JSONResponse({"status": "ready", "versions": versions})

    @app.get("/metrics", tags=["state"])
    async def metrics(request: Request) -> Response:
        """Counters in Prometheus' format."""
        server.access.check_reader(request)
        return Response(server.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models", tags=["state"])
    async def models(request: Request) -> dict[str, Any]:
        """The classifiers, as OpenAI (data) and TypeSafe (models) list them."""
        server.access.check_reader(request)
        described = [_described(classifier) for classifier in server.classifiers.values()]
        return {"object": "list", "data": described, "models": described}

    @app.get("/v1/models/{name}", tags=["state"])
    async def one_model(name: str, request: Request) -> dict[str, Any]:
        """One classifier."""
        server.access.check_reader(request)
        return _described(server.classifier(name))


def _described(classifier: Classifier) -> dict[str, Any]:
    state = classifier.state
    created = classifier.opened_at
    store = state.pipe.datastore
    return {
        "id": classifier.name,
        "object": "model",
        "created": int(created),
        "owned_by": "docsplit_hf",
        "name": classifier.name,
        "description": f"A classifier with {len(state.label_names)} labels, fitted on {len(store):,} examples.",
        "release_date": datetime.fromtimestamp(created, UTC).date().isoformat(),
        "x_version": state.version,
        "x_labels": list(state.label_names),
        "x_examples": len(store),
        "x_fitted": state.is_fitted,
        "x_multi_label": state.multi_label,
    }


def _add_classify(app: FastAPI, server: Server) -> None:
    @app.post("/v1/classify", tags=["answers"], openapi_extra=_documented(ClassifyRequest))
    async def classify(request: Request) -> Response:
        """Classify texts. As application/x-ndjson, lines of {"text": ...} are answered while they arrive; options are \
then in the query. As multipart/form-data, files are read, where their reader is installed."""
        server.access.check_reader(request)
        if request.headers.get("content-type", "").startswith(STREAMED):
            return await _classify_stream(request, server)
        if request.headers.get("content-type", "").startswith(UPLOADED):
            return await _classify_files(request, server)
        body = await parsed(request, ClassifyRequest)
        if (body.text is None) == (body.texts is None):
            raise unprocessable("Give either text or texts.", "texts")
        given = [body.text] if body.texts is None else body.texts
        texts = [one if isinstance(one, str) else one.text for one in given]
        pairs = [None if isinstance(one, str) else one.text_pair for one in given]
        classifier = server.classifier(body.model)
        if not texts:
            content = {"model": classifier.name, "version": classifier.state.version, "answers": []}
            return JSONResponse(content)
        state, results = await server.read(classifier, texts, pairs, options_of(body, server))
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
    answers = []
    for result in results:
        for row in range(len(result.embedded.retrieval_embeddings)):
            answers.append(result.predicted.answer(result.first_row + row))
    return answers


async def _classify_files(request: Request, server: Server) -> Response:
    """Answer uploaded files; options are further fields of the form."""
    read_file = file_reader()
    async with request.form(max_files=server.settings.limits.files, max_fields=50) as form:
        upload = upload_of(form)
        options = options_of(parsed_json(json.dumps(_typed(upload.options)).encode(), AnswerOptions), server)
        classifier = server.classifier(upload.model)
        read = [await asyncio.to_thread(text_of_upload, read_file, file) for file in upload.files]
    state, results = await server.read(classifier, [one.text for one in read], [None] * len(read), options)
    content = {
        "model": classifier.name,
        "version": state.version,
        "files": [one.name for one in read],
        "answers": _answers(results),
    }
    return JSONResponse(content)


async def _classify_stream(request: Request, server: Server) -> Response:
    """Answer lines of JSON by lines of JSON, in their order."""
    query = dict(request.query_params)
    name = query.pop("model", None)
    options = options_of(parsed_json(json.dumps(_typed(query)).encode(), AnswerOptions), server)
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


def _add_embeddings(app: FastAPI, server: Server) -> None:
    @app.post("/v1/embeddings", tags=["answers"], openapi_extra=_documented(EmbeddingsRequest))
    async def embeddings(request: Request) -> Response:
        """Embed texts by the encoder of a classifier; embeddings have norm 1."""
        server.access.check_reader(request)
        body = await parsed(request, EmbeddingsRequest)
        texts = [body.input] if isinstance(body.input, str) else body.input
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise unprocessable("input must be a text or a list of texts: lists of tokens are not taken.", "input")
        if not all(text.strip() for text in texts):
            raise unprocessable("input has an empty text.", "input", "empty")
        classifier = server.classifier(body.model)
        _check_dimensions(body.dimensions, classifier.state)
        state, results = await server.read(classifier, texts, [None] * len(texts), None)
        vectors = np.concatenate([result.embedded.retrieval_embeddings for result in results])
        vectors = _normalized(vectors[:, : body.dimensions])
        data = [
            {"object": "embedding", "index": row, "embedding": _encoded(vector, body.encoding_format)}
            for row, vector in enumerate(vectors)
        ]
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
    """Refuse fewer dimensions of an encoder that was not trained for it."""
    config = state.pipe.model.config
    size = config.retrieval_size
    if dimensions is None or dimensions == size:
        return
    trained = getattr(getattr(config, "encoder_config", None), "docsplit", None) or {}
    allowed = trained.get("matryoshka_dims") or []
    if dimensions not in allowed:
        listed = ", ".join(map(str, sorted({*allowed, size})))
        raise unprocessable(f"dimensions={dimensions}: this encoder gives {listed}.", "dimensions", "dimensions")


def _normalized(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(norms, 1e-12)).astype("<f4")


def _encoded(vector: np.ndarray, form: str) -> list[float] | str:
    return base64.b64encode(vector.tobytes()).decode() if form == "base64" else vector.tolist()


def _add_decisions(app: FastAPI, server: Server) -> None:
    @app.post("/v1/systemone", tags=["decisions"], openapi_extra=_documented(SystemOneRequest))
    async def system_one(request: Request) -> Response:
        """Answer typed questions about a state: choice among labels, and noul, whether it has one label."""
        server.access.check_reader(request)
        body = await parsed(request, SystemOneRequest)
        return await _answer_system_one(body, server)

    @app.post("/v1/decisions", tags=["decisions"], openapi_extra=_documented(DecisionsRequest))
    async def decisions(request: Request) -> Response:
        """Answer typed questions about an input, as OpenAI's Decisions; a rejected text gets refusals."""
        server.access.check_reader(request)
        body = await parsed(request, DecisionsRequest)
        _check_question_count(len(body.questions), server)
        classifier = server.classifier(body.model)
        state = classifier.state
        labels = server.labels(state)
        questions = [openai_question(number, given, labels) for number, given in enumerate(body.questions)]
        options = _decision_options(server, body.x_reject)
        _, results = await server.read(classifier, [text_of_input(body)], [None], options, state)
        scores = server.label_scores(results[0], 0)
        tokens = results[0].token_count
        return JSONResponse(
            {
                "model": classifier.name,
                "answers": [
                    openai_answer(given, question, scores)
                    for given, question in zip(body.questions, questions, strict=True)
                ],
                "usage": {
                    "input_tokens": tokens,
                    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                    "output_tokens": 0,
                    "output_tokens_details": {"reasoning_tokens": 0},
                    "total_tokens": tokens,
                },
                "x_version": state.version,
            }
        )


def _decision_options(server: Server, reject: float | None) -> CallOptions:
    try:
        return server.decision_options(reject)
    except ValueError as error:
        raise unprocessable(str(error), "x_reject") from None


def _check_question_count(count: int, server: Server) -> None:
    most = server.settings.limits.questions
    if not count:
        raise unprocessable("Ask at least one question.", "questions", "missing")
    if count > most:
        raise unprocessable(f"{count:,} questions are too many: ask at most {most}.", "questions", "too_many")


def _is_batch(state: Any) -> bool:
    """Whether a state is Avrik's batch: a list of texts with ids."""
    return (
        isinstance(state, list)
        and bool(state)
        and all(
            isinstance(item, dict)
            and {"id", "text"} <= item.keys() <= {"id", "text", "questions"}
            and isinstance(item["id"], str)
            and isinstance(item["text"], str)
            for item in state
        )
    )


async def _answer_system_one(body: SystemOneRequest, server: Server) -> Response:
    classifier = server.classifier(body.model)
    state = classifier.state
    options = _decision_options(server, body.x_reject)
    if _is_batch(body.state):
        return await _answer_batch(body, server, classifier, state, options)
    questions = _system_one_questions(body.questions, server.labels(state), server)
    _, results = await server.read(classifier, [text_of_state(body.state)], [None], options, state)
    scores = server.label_scores(results[0], 0)
    tokens = results[0].token_count
    content = {
        "model": classifier.name,
        "answers": {question.name: system_one_answer(question, scores) for question in questions},
        "usage": {"input_tokens": tokens, "output_tokens": 0},
        "audit": _audit_fields(classifier, state, [tokens] * len(questions)),
        "x_version": state.version,
    }
    return JSONResponse(content)


def _system_one_questions(given: dict[str, SystemOneQuestion] | None, labels: Labels, server: Server) -> list[Question]:
    if given is None:
        raise unprocessable("questions are missing.", "questions", "missing")
    _check_question_count(len(given), server)
    if "" in given:
        raise unprocessable("A question has an empty name.", "questions", "empty")
    return [system_one_question(name, question, labels) for name, question in given.items()]


async def _answer_batch(
    body: SystemOneRequest, server: Server, classifier: Classifier, state: State, options: CallOptions
) -> Response:
    """Answer Avrik's batch: texts with ids, each with questions of its own or those of all."""
    labels = server.labels(state)
    questions: list[list[Question] | Refused] = []
    for item in body.state:
        try:
            own = item.get("questions")
            asked = body.questions if own is None else _questions_of_item(own)
            text_of_state(item["text"])
            questions.append(_system_one_questions(asked, labels, server))
        except Refused as refused:
            questions.append(refused)
    answered = [number for number, asked in enumerate(questions) if not isinstance(asked, Refused)]
    scores: dict[int, LabelScores] = {}
    tokens = 0
    if answered:
        texts = [body.state[number]["text"] for number in answered]
        _, results = await server.read(classifier, texts, [None] * len(texts), options, state)
        rows = [(result, row) for result in results for row in range(len(result.embedded.retrieval_embeddings))]
        scores = {
            number: server.label_scores(result, row) for number, (result, row) in zip(answered, rows, strict=True)
        }
        tokens = sum(result.token_count for result in results)
    answers = []
    for number, asked in enumerate(questions):
        row_id = body.state[number]["id"]
        if isinstance(asked, Refused):
            error = {"code": asked.code, "message": asked.message, "field": asked.field}
            answers.append({"id": row_id, "error": error})
        else:
            own_answers = {question.name: system_one_answer(question, scores[number]) for question in asked}
            answers.append({"id": row_id, "answers": own_answers})
    content = {
        "model": classifier.name,
        "results": answers,
        "usage": {"input_tokens": tokens, "output_tokens": 0},
        "audit": _audit_fields(classifier, state, [tokens]),
        "x_version": state.version,
    }
    return JSONResponse(content)


def _questions_of_item(given: Any) -> dict[str, SystemOneQuestion]:
    try:
        return {name: SystemOneQuestion.model_validate(question) for name, question in given.items()}
    except (ValidationError, AttributeError):
        raise unprocessable("The questions of a text are not questions.", "questions") from None


def _audit_fields(classifier: Classifier, state: State, tokens: list[int]) -> dict[str, Any]:
    """What Avrik's client requires: what the answers were made by."""
    return {
        "model_hash": classifier.weights_sha256,
        "calibration_version": state.version,
        "prompt_template_sha256": [],
        "allowed_token_set_hash": [],
        "input_tokens": tokens,
        "backend": "docsplit_hf",
        "precision": classifier.precision,
    }


def _add_edits(app: FastAPI, server: Server) -> None:
    async def edit(request: Request, body: Any, kind: str, change: Callable[..., Any], *arguments: Any) -> Response:
        """Run a change for the editor who sends a request."""
        who = server.access.editor(request)
        classifier = server.classifier(body.model)
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= LONGEST_KEY:
            raise Refused(BAD_REQUEST, "bad_key", f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.")
        edit_request = EditRequest(who, key, digest_of(body.model_dump(mode="json")))
        editor = server.editors[classifier.name]
        try:
            run = partial(change, editor, *arguments, edit_request)
            answer = await asyncio.wrap_future(editor.run(run))
        except (ValueError, TypeError) as error:
            raise unprocessable(classifier.without_paths(str(error))) from error
        if "repeated" not in answer:
            server.metrics.edits.labels(classifier.name, kind).inc()
        return JSONResponse({"model": classifier.name, **answer})

    @app.post("/v1/examples", tags=["edits"], openapi_extra=_documented(ExamplesRequest))
    async def examples(request: Request) -> Response:
        """Add, relabel and remove examples, all of it or nothing. With the header Idempotency-Key, a repeated request \
changes nothing and gets the same answer."""
        server.access.editor(request)
        body = await parsed(request, ExamplesRequest)
        changes = _changes(body, server)
        return await edit(request, body, "examples", Editor.change, changes)

    @app.post("/v1/fit", tags=["edits"], openapi_extra=_documented(FitRequest))
    async def fit(request: Request) -> Response:
        """Fit the experts on the present examples; until it is done, the old ones answer."""
        server.access.editor(request)
        body = await parsed(request, FitRequest)
        return await edit(request, body, "fit", Editor.fit, body.class_proportions)

    @app.get("/v1/suggest", tags=["edits"])
    async def suggest(request: Request, model: str | None = None, n: int = 10) -> Response:
        """The documents whose labels would help most."""
        server.access.editor(request)
        classifier = server.classifier(model)
        if not 1 <= n <= server.settings.limits.texts:
            raise unprocessable(f"n must be from 1 to {server.settings.limits.texts}.", "n")
        return await inspect(classifier, lambda pipe: {"suggestions": pipe.suggest(n, again=True)})

    @app.get("/v1/audit", tags=["edits"])
    async def audit(request: Request, model: str | None = None) -> Response:
        """Labels that look wrong, near-duplicates and outliers among the examples."""
        server.access.editor(request)
        classifier = server.classifier(model)
        return await inspect(classifier, lambda pipe: {"audit": asdict(pipe.audit(show_progress=False))})

    async def inspect(classifier: Classifier, look: Callable[[Any], dict[str, Any]]) -> Response:
        """Look at one state of a classifier, after the edits under way."""
        editor = server.editors[classifier.name]
        try:
            version, found = await asyncio.wrap_future(editor.run(editor.inspect, look))
        except (ValueError, TypeError) as error:
            raise unprocessable(classifier.without_paths(str(error))) from error
        return JSONResponse({"model": classifier.name, "version": version, **found})


def _changes(body: ExamplesRequest, server: Server) -> Changes:
    """The changes that a request asks for, within the limits."""
    limits = server.settings.limits
    if not (body.add or body.relabel or body.remove):
        raise unprocessable("Nothing is to be changed: give add, relabel or remove.", "add", "missing")
    if len(body.add) + len(body.relabel) + len(body.remove) > limits.texts:
        raise unprocessable(f"Too many changes at a time: send at most {limits.texts:,}.", "add", "too_many")
    server.check_texts([example.text for example in body.add], [example.text_pair for example in body.add])
    for label in [*(example.label for example in body.add), *body.relabel.values()]:
        _check_label(label, server)
    add = [NewExample(example.text, example.text_pair, _plain(example.label), example.id) for example in body.add]
    relabel = {row_id: _plain(label) for row_id, label in body.relabel.items()}
    return Changes(add, relabel, list(body.remove))


def _plain(label: str | list[str]) -> str | list[str]:
    return label if isinstance(label, str) else list(label)


def _check_label(label: str | list[str], server: Server) -> None:
    """Refuse names of labels that are empty, too long, or of control characters."""
    limits = server.settings.limits
    names = [label] if isinstance(label, str) else label
    if len(names) > limits.labels:
        raise unprocessable(f"A text has {len(names):,} labels: at most {limits.labels:,}.", "add", "too_many_labels")
    for name in names:
        if not name.strip():
            raise unprocessable("The name of a label is empty.", "add", "empty")
        if len(name) > limits.label_characters:
            most = limits.label_characters
            raise unprocessable(f"A label has {len(name):,} characters: at most {most}.", "add", "label_too_long")
        if any(not character.isprintable() for character in name):
            raise unprocessable("The name of a label has a control character.", "add", "control_character")
