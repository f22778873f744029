"""``/v1/systemone`` and ``/v1/decisions``: typed questions."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from ....content_hash import sha256_of_json
from ..batching import ReadTexts
from ..bodies import parsed
from ..decisions import (
    Labels,
    Question,
    openai_answer,
    openai_question,
    system_one_answer,
    system_one_question,
    text_of_input,
    text_of_state,
)
from ..errors import Refused, unprocessable
from ..schemas import DecisionsRequest, SystemOneQuestion, SystemOneRequest
from ..server import Server
from .documented import documented


def add_decisions(app: FastAPI, server: Server) -> None:
    """Add the addresses of typed questions."""
    for_readers = [Depends(server.access.check_reader)]

    @app.post("/v1/systemone", tags=["decisions"], dependencies=for_readers, openapi_extra=documented(SystemOneRequest))
    async def system_one(request: Request) -> Response:
        """Answer typed questions about a state: choice among labels, and noul, whether it has one label."""
        body = await parsed(request, SystemOneRequest, server)
        return await _answer_system_one(request, body, server)

    @app.post("/v1/decisions", tags=["decisions"], dependencies=for_readers, openapi_extra=documented(DecisionsRequest))
    async def decisions(request: Request) -> Response:
        """Answer typed questions about an input, as OpenAI's Decisions; a rejected text gets refusals."""
        body = await parsed(request, DecisionsRequest, server)
        _check_question_count(len(body.questions), server)
        classifier = server.classifier(body.model)
        state = classifier.state
        labels = server.labels(state)
        questions = [openai_question(number, given, labels) for number, given in enumerate(body.questions)]
        options = server.decision_options(body.x_reject)
        _, results = await server.read(classifier, [text_of_input(body)], [None], options, state, request)
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


async def _answer_system_one(request: Request, body: SystemOneRequest, server: Server) -> Response:
    """Answer questions about a state, or Avrik's batch: texts with ids, each with questions of its own or of all."""
    classifier = server.classifier(body.model)
    state = classifier.state
    options = server.decision_options(body.x_reject)
    is_batch = _is_batch(body.state)
    items = body.state if is_batch else [{"text": text_of_state(body.state)}]
    asked = [_questions_of_item(item, body, server.labels(state), server) for item in items]
    if not is_batch and isinstance(asked[0], Refused):
        raise asked[0]
    texts = [item["text"] for item, questions in zip(items, asked, strict=True) if not isinstance(questions, Refused)]
    results: list[ReadTexts] = []
    if texts:
        _, results = await server.read(classifier, texts, [None] * len(texts), options, state, request)
    scores = iter([server.label_scores(result, row) for result in results for row in range(result.text_count)])
    tokens = sum(result.token_count for result in results)
    answers: list[dict[str, Any]] = []
    for questions in asked:
        if isinstance(questions, Refused):
            error = {"code": questions.code, "message": questions.message, "field": questions.field}
            answers.append({"error": error})
        else:
            found = next(scores)
            answers.append({"answers": {question.name: system_one_answer(question, found) for question in questions}})
    if is_batch:
        content = {"results": [{"id": item["id"], **answer} for item, answer in zip(items, answers, strict=True)]}
    else:
        content = answers[0]
    return JSONResponse(
        {
            "model": classifier.name,
            **content,
            "usage": {"input_tokens": tokens, "output_tokens": 0},
            "audit": {  # what Avrik's client requires: what the answers were made by
                "model_hash": sha256_of_json(state.weights),
                "calibration_version": state.version,
                "prompt_template_sha256": [],
                "allowed_token_set_hash": [],
                "input_tokens": [tokens] * (1 if is_batch else len(asked[0])),
                "backend": "docsplit_hf",
                "precision": classifier.precision,
            },
            "x_version": state.version,
        }
    )


def _questions_of_item(
    item: dict[str, Any], body: SystemOneRequest, labels: Labels, server: Server
) -> list[Question] | Refused:
    """The questions about a text, its own or those of all; or the reason for which it has no answer."""
    try:
        own = item.get("questions")
        asked = body.questions if own is None else _parsed_questions(own)
        text_of_state(item["text"])
        return _system_one_questions(asked, labels, server)
    except Refused as refused:
        return refused


def _system_one_questions(given: dict[str, SystemOneQuestion] | None, labels: Labels, server: Server) -> list[Question]:
    if given is None:
        raise unprocessable("questions are missing.", "questions", "missing")
    _check_question_count(len(given), server)
    if "" in given:
        raise unprocessable("A question has an empty name.", "questions", "empty")
    return [system_one_question(name, question, labels) for name, question in given.items()]


def _parsed_questions(given: Any) -> dict[str, SystemOneQuestion]:
    try:
        return {name: SystemOneQuestion.model_validate(question) for name, question in given.items()}
    except (ValidationError, AttributeError):
        raise unprocessable("The questions of a text are not questions.", "questions") from None
