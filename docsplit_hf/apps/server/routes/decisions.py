"""``/v1/systemone`` and ``/v1/decisions``: typed questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response

from ..bodies import documented, parsed
from ..decisions import (
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
from ..errors import unprocessable
from ..schemas import DecisionsRequest, SystemOneRequest
from ..server import Server


class Asked(NamedTuple):
    """Questions, what the classifier says of the text that they are about, and what the answer names."""

    questions: list[Question]
    scores: LabelScores
    tokens: int
    model: str
    version: str


def add_decisions(app: FastAPI, server: Server) -> None:
    """Add the addresses of typed questions."""
    for_readers = [Depends(server.access.check_reader)]

    async def ask(
        request: Request,
        body: SystemOneRequest | DecisionsRequest,
        text: str,
        questions_of: Callable[[Labels], list[Question]],
    ) -> Asked:
        """Check the questions of a request, and read its text."""
        most = server.settings.limits.questions
        if len(body.questions) > most:
            message = f"{len(body.questions):,} questions are too many: ask at most {most}."
            raise unprocessable(message, "questions", "too_many")
        classifier = server.classifier(body.model)
        state = classifier.state
        questions = questions_of(server.labels(state))
        options = server.decision_options(body.x_reject)
        read = await server.read(classifier, state, [text], [None], options, request)
        return Asked(questions, server.label_scores(read), read.token_count, classifier.name, state.version)

    @app.post("/v1/systemone", tags=["decisions"], dependencies=for_readers, openapi_extra=documented(SystemOneRequest))
    async def system_one(request: Request) -> Response:
        """Answer typed questions about a state: choice among labels, and noul, whether it has one label."""
        body = await parsed(request, SystemOneRequest, server)
        given = body.questions.items()
        asked = await ask(
            request,
            body,
            text_of_state(body.state),
            lambda labels: [system_one_question(name, question, labels) for name, question in given],
        )
        return JSONResponse(
            {
                "model": asked.model,
                "answers": {question.name: system_one_answer(question, asked.scores) for question in asked.questions},
                "usage": {"input_tokens": asked.tokens, "output_tokens": 0},
                "x_version": asked.version,
            }
        )

    @app.post("/v1/decisions", tags=["decisions"], dependencies=for_readers, openapi_extra=documented(DecisionsRequest))
    async def decisions(request: Request) -> Response:
        """Answer typed questions about an input, as OpenAI's Decisions; a rejected text gets refusals."""
        body = await parsed(request, DecisionsRequest, server)
        asked = await ask(
            request,
            body,
            text_of_input(body),
            lambda labels: [openai_question(number, given, labels) for number, given in enumerate(body.questions)],
        )
        return JSONResponse(
            {
                "model": asked.model,
                "answers": [
                    openai_answer(given, question, asked.scores)
                    for given, question in zip(body.questions, asked.questions, strict=True)
                ],
                "usage": {
                    "input_tokens": asked.tokens,
                    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                    "output_tokens": 0,
                    "output_tokens_details": {"reasoning_tokens": 0},
                    "total_tokens": asked.tokens,
                },
                "x_version": asked.version,
            }
        )
