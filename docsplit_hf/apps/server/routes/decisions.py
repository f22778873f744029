"""``/v1/systemone`` and ``/v1/decisions``: typed questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response

from ..bodies import call_options_of, documented, parsed
from ..errors import unprocessable
from ..questions import (
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
from ..schemas import AnswerOptions, DecisionsRequest, SystemOneRequest
from ..server import Server


def add_decisions(app: FastAPI, server: Server) -> None:
    """Add the addresses of typed questions."""
    for_readers = [Depends(server.access.check_reader)]

    async def ask(
        request: Request,
        body: SystemOneRequest | DecisionsRequest,
        text: str,
        questions_of: Callable[[Labels], list[Question]],
    ) -> tuple[list[Question], LabelScores, dict[str, Any]]:
        """Check the questions of a request, and read its text; return what the answers to both protocols have, too."""
        most = server.settings.limits.questions
        if len(body.questions) > most:
            message = f"{len(body.questions):,} questions are too many: ask at most {most}."
            raise unprocessable(message, "questions", "too_many")
        classifier = server.classifier(body.model)
        state = classifier.state
        questions = questions_of(server.labels(state))
        novelty = None if body.x_reject is None else server.settings.novelty
        options = call_options_of(AnswerOptions(reject=body.x_reject, novelty=novelty), server)
        read = await server.read(classifier, state, [text], [None], options, request)
        usage = {"input_tokens": read.token_count, "output_tokens": 0}
        content = {"model": classifier.name, "usage": usage, "x_version": state.version}
        return questions, server.label_scores(read), content

    @app.post("/v1/systemone", tags=["decisions"], dependencies=for_readers, openapi_extra=documented(SystemOneRequest))
    async def system_one(request: Request) -> Response:
        """Answer typed questions about a state: choice among labels, and noul, whether it has one label."""
        body = await parsed(request, SystemOneRequest, server)
        given = body.questions.items()
        questions, scores, content = await ask(
            request,
            body,
            text_of_state(body.state),
            lambda labels: [system_one_question(name, question, labels) for name, question in given],
        )
        content["answers"] = {question.name: system_one_answer(question, scores) for question in questions}
        return JSONResponse(content)

    @app.post("/v1/decisions", tags=["decisions"], dependencies=for_readers, openapi_extra=documented(DecisionsRequest))
    async def decisions(request: Request) -> Response:
        """Answer typed questions about an input, as OpenAI's Decisions; a rejected text gets refusals."""
        body = await parsed(request, DecisionsRequest, server)
        questions, scores, content = await ask(
            request,
            body,
            text_of_input(body),
            lambda labels: [openai_question(number, given, labels) for number, given in enumerate(body.questions)],
        )
        content["answers"] = [
            openai_answer(given, question, scores) for given, question in zip(body.questions, questions, strict=True)
        ]
        content["usage"] |= {
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": content["usage"]["input_tokens"],
        }
        return JSONResponse(content)
