"""masked_nouns: what few-shot classification loses when nouns are masked, and when as many other words are."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from docsplit_hf.evaluation.probes import LabeledFeatures, logistic_predictions
from docsplit_hf.evaluation.systems import System
from docsplit_hf.reading.characters import replace_lone_surrogates

from ..evaluation.experiment import Evaluation, Experiment, Plan, PlannedMeasurement
from ..evaluation.protocols import labeled_features
from ..evaluation.tasks import ClassificationTask
from ..papers_options import PaperSettings
from ..systems import document_encoder
from ..taggers.load_tagger import load_tagger, tagger_settings
from ..taggers.parts_of_speech import Tagger, Word

NOTHING = "nothing"
NOUNS = "nouns"
OTHERS = "others"  # neither nouns, verbs nor adjectives
MASKED = (NOTHING, NOUNS, OTHERS)


def mask_words(texts: Sequence[str], tagger: Tagger, masked: str, mask: str) -> list[str]:
    """The texts with randomly drawn nouns, or as many other words, replaced by ``mask``.

    Both variants mask the same number of words: a text with more nouns than other words keeps some of its nouns.
    """
    found = []
    for number, (text, words) in enumerate(zip(texts, tagger.tag(texts), strict=True)):
        nouns = [word for word in words if word.group == "noun"]
        others = [word for word in words if word.group == "other"]
        candidates = nouns if masked == NOUNS else others
        chosen = random.Random(number).sample(candidates, min(len(nouns), len(others)))
        found.append(_replaced(replace_lone_surrogates(text), chosen, mask))
    return found


def _replaced(text: str, words: Sequence[Word], mask: str) -> str:
    for word in sorted(words, key=lambda word: -word.start):
        text = text[: word.start] + mask + text[word.end :]
    return text


def _features(evaluation: Evaluation, masked: str, tagger: str) -> LabeledFeatures:
    task = evaluation.task
    if masked != NOTHING:
        mask = document_encoder(evaluation.system).tokenizer.mask_token
        task = replace(
            task,
            train_texts=mask_words(task.train_texts, load_tagger(tagger), masked, mask),
            test_texts=mask_words(task.test_texts, load_tagger(tagger), masked, mask),
        )
    return labeled_features(Evaluation(evaluation.system, task))


def _plan(task: ClassificationTask, settings: PaperSettings) -> Plan:
    chosen = {"shots": settings.shots_of(task.name), "max_length": settings.max_length}
    chosen |= tagger_settings(settings.tagger)
    return [
        PlannedMeasurement("masked_nouns", chosen, seed, _measure) for seed in settings.seeds_of(settings.repeats)
    ], []


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    metrics = {}
    for masked in MASKED:
        features = evaluation.once(_features, masked, settings["tagger"])
        features = features.draw(settings["shots"], seed, evaluation.task.label_names)
        metrics[f"{masked}_macro_f1"] = features.metrics(logistic_predictions(features, seed))["macro_f1"]
    return metrics


def _refuses(system: System) -> str | None:
    encoder = document_encoder(system)
    return None if encoder is not None and encoder.tokenizer.mask_token else "with a mask token, whose weights are here"


MASKED_NOUNS = Experiment("few_shot with nouns masked, and with as many others", (ClassificationTask,), _plan, _refuses)
