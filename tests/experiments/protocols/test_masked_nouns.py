from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.evaluation.experiment import Evaluation
from experiments.evaluation.systems import load_system
from experiments.evaluation.tasks import ClassificationTask
from experiments.papers_options import PaperSettings
from experiments.protocols.masked_nouns import NOUNS, OTHERS, _features, mask_words
from experiments.taggers.parts_of_speech import Tagger, Word

from ..planning import plan

MASK = "[MASK]"
GROUPS = {"river": "noun", "valley": "noun", "feeds": "verb", "the": "other", "and": "other"}


def words_of(texts):
    for text in texts:
        words = []
        start = 0
        for part in text.split(" "):
            words.append(Word(part, start, GROUPS[part], part))
            start += len(part) + 1
        yield words


TAGGER = Tagger("by a list", words_of)


def test_nouns_or_as_many_others_are_masked():
    text = "the river feeds the valley and the river"
    assert mask_words([text], TAGGER, NOUNS, MASK) == ["the [MASK] feeds the [MASK] and the [MASK]"]
    [others] = mask_words([text], TAGGER, OTHERS, MASK)
    assert Counter(others.split()) >= Counter({MASK: 3, "river": 2, "valley": 1, "feeds": 1})
    assert mask_words(["river feeds valley the"], TAGGER, NOUNS, MASK)[0].count(MASK) == 1  # there is one other word


@given(st.lists(st.sampled_from(sorted(GROUPS)), min_size=1, max_size=30))
def test_both_variants_mask_equally_many_words_and_keep_the_rest(words):
    text = " ".join(words)
    [without_nouns] = mask_words([text], TAGGER, NOUNS, MASK)
    [without_others] = mask_words([text], TAGGER, OTHERS, MASK)
    assert without_nouns.split(" ").count(MASK) == without_others.split(" ").count(MASK)
    for masked, group in ((without_nouns, "noun"), (without_others, "other")):
        for new, old in zip(masked.split(" "), words, strict=True):
            assert new == old or (new == MASK and GROUPS[old] == group)


def test_features_are_those_of_masked_texts_and_without_masks_equal_few_shot(texts, tiny_checkpoint, monkeypatch):
    tagger = Tagger("a noun and another", a_noun_and_another)
    monkeypatch.setattr("experiments.protocols.masked_nouns.load_tagger", lambda name: tagger)
    monkeypatch.setattr("experiments.protocols.masked_nouns.tagger_settings", lambda name: {"tagger": name})
    labels = np.array(["river" in text for text in texts], dtype=np.int64)
    task = ClassificationTask("rivers", texts[:32], labels[:32], texts[32:], labels[32:], ["no", "yes"])
    system = load_system(str(tiny_checkpoint), max_length=64)
    settings = PaperSettings(repeats=2, shots=2)
    evaluation = Evaluation(system, task, str(tiny_checkpoint))
    masked_nouns, _ = plan(["masked_nouns"], system, task, settings)
    few_shot, _ = plan(["few_shot"], system, task, settings)
    for one, other in zip(masked_nouns, few_shot, strict=True):
        found = one.run(evaluation)
        assert found["nothing_macro_f1"] == other.run(evaluation)["macro_f1"]
    for place, name in ((0, NOUNS), (1, OTHERS)):
        by_hand = [with_mask(text, place) for text in texts]
        features = evaluation.once(_features, name, settings.tagger)
        train, test = system.features(by_hand[:32], by_hand[32:])
        np.testing.assert_array_equal(features.train, train)
        np.testing.assert_array_equal(features.test, test)


def with_mask(text, place):
    words = text.split(" ")
    words[place] = MASK
    return " ".join(words)


def a_noun_and_another(texts):
    """Tag the first word of each text as a noun, and the second as another word."""
    for text in texts:
        first, second, *_ = text.split(" ")
        yield [Word(first, 0, "noun", ""), Word(second, len(first) + 1, "other", "")]
