"""Bodies of requests, as pydantic checks them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

JSON = Any  # what a protocol leaves open: text, an object or an array
# checked_options refuses other numbers, in its own words.
Fraction = Annotated[float, Field(strict=True, json_schema_extra={"minimum": 0, "maximum": 1})]
UNKNOWN_FIELD = "unknown_field"
MOST_LABEL_CHARACTERS = 200


def _label_name(name: str) -> str:
    """Refuse names of labels that are empty, too long, or of control characters."""
    if not name.strip() or len(name) > MOST_LABEL_CHARACTERS or not name.isprintable():
        message = "the name of a label has 1 to {most} characters, and no control characters"
        raise PydanticCustomError("label_name", message, {"most": MOST_LABEL_CHARACTERS})
    return name


LabelName = Annotated[str, Field(strict=True), AfterValidator(_label_name)]


class Strict(BaseModel):
    """A body of our own: unknown fields are refused, since they are misspelled ones."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # a server starts without what nobody has asked for

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, given: Any) -> Any:
        """Refuse an unknown field with the names of the known ones."""
        known = cls.model_fields
        unknown = next((name for name in given if name not in known), None) if isinstance(given, dict) else None
        if unknown is not None:
            raise PydanticCustomError(
                UNKNOWN_FIELD,
                "no such field. The fields are {known}",
                {"name": unknown, "known": ", ".join(known)},
            )
        return given


class Lenient(BaseModel):
    """A body of a protocol that others define: unknown fields are ignored, as it asks."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class TextPair(Strict):
    """A text, and a second one if the classifier reads pairs."""

    text: StrictStr
    text_pair: StrictStr | None = None


class AnswerOptions(Strict):
    """Options of answers, as a call of the pipeline takes them."""

    top_k: StrictInt | None = Field(
        None, description="The number of labels for each text; null: all. Without this field: the best label alone."
    )
    return_neighbors: StrictInt = Field(0, ge=0, le=100, description="The number of nearest examples to return.")
    return_documents: StrictInt = Field(0, ge=0, le=100, description="The number of nearest documents to return.")
    explain: StrictBool = Field(False, description="Whether to explain each answer.")
    reject: Fraction | None = Field(None, description="The error rate to allow; unsure texts get the label null.")
    novelty: Fraction | Literal[False] | None = Field(None, description="With reject: the in-scope texts to lose.")
    each_label: StrictBool = Field(False, description="With reject: the error rate holds for each label.")
    labels_at: Fraction | None = Field(None, description="The probability that the set of labels has the right one.")
    return_novelty: StrictBool = Field(False, description="Whether to return how new each text is.")
    return_read: StrictBool = Field(False, description="Whether to return the fraction of each text that was read.")
    max_length: StrictInt | None = Field(None, ge=1, description="The longest input of the encoder in tokens.")
    max_passages: StrictInt | None = Field(None, ge=1, description="The most passages to read of a text.")


class ClassifyRequest(AnswerOptions):
    """Texts to classify, and options."""

    model: StrictStr | None = Field(None, description="The name of the classifier; without it, the first one.")
    text: StrictStr | None = Field(None, description="One text.")
    texts: list[StrictStr | TextPair] | None = Field(None, description="Several texts, or pairs of texts.")


class SystemOneQuestion(Lenient):
    """A question of System One."""

    type: StrictStr
    instructions: JSON = None
    criteria: JSON = None


class SystemOneRequest(Lenient):
    """A request of System One: what questions are about, and questions by name."""

    model: StrictStr | None = None
    state: JSON = Field(description="Text; or JSON, of which all strings and numbers are read.")
    questions: dict[Annotated[str, Field(min_length=1)], SystemOneQuestion] = Field(min_length=1)
    x_reject: Fraction | None = Field(None, description="The error rate to allow, instead of the server's.")


class DecisionChoice(Lenient):
    """An option of a choice in OpenAI's Decisions."""

    value: StrictStr | StrictBool
    description: StrictStr | None = None


class DecisionQuestion(Lenient):
    """A question in OpenAI's Decisions."""

    type: StrictStr
    name: StrictStr | None = None
    instructions: JSON = None
    choices: list[DecisionChoice] | None = None


class DecisionsRequest(Lenient):
    """A request of OpenAI's Decisions."""

    model: StrictStr | None = None
    input: JSON = Field(description="Text, or messages with parts of text or JSON.")
    questions: list[DecisionQuestion] = Field(min_length=1)
    x_reject: Fraction | None = Field(None, description="The error rate to allow, instead of the server's.")


class ExampleToAdd(TextPair):
    """A labeled text to add."""

    label: LabelName | list[LabelName]
    id: StrictStr | None = Field(None, min_length=1, max_length=200)


class ExamplesRequest(Strict):
    """Changes of examples that are made together, or not at all."""

    model: StrictStr | None = None
    add: list[ExampleToAdd] = Field(default_factory=list)
    relabel: dict[str, LabelName | list[LabelName]] = Field(
        default_factory=dict, description="New labels by id; they must be known."
    )
    remove: list[StrictStr] = Field(default_factory=list, description="Ids of examples.")


class FitRequest(Strict):
    """A fit of the experts."""

    model: StrictStr | None = None
    class_proportions: Literal["estimated", "uniform"] | dict[str, StrictFloat | StrictInt] = "estimated"
