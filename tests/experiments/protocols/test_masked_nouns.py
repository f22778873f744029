from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation.experiment import Evaluation
from docsplit_hf.evaluation.systems import load_system
from docsplit_hf.evaluation.tasks import ClassificationTask
from experiments.papers_options import PaperSettings
from experiments.protocols.masked_nouns import NOUNS, OTHERS, _features, mask_words
from experiments.taggers.parts_of_speech import Tagger, Word

from ..planning import plan

MASK = "[MASK]"
GROUPS = {"river": "noun", "valley": "noun", "feeds": "verb", "the": "other", "and": "other"}


def words_of(texts):
    for text in texts:
        starts = np.cumsum([0, *(len(part) + 1 for part in text.split(" "))])
        yield [Word(part, int(start), GROUPS[part], part) for part, start in zip(text.split(" "), starts, strict=False)]


TAGGER = Tagger("by a list", words_of)


def test_nouns_or_as_many_others_are_masked():
    text = "the river feeds the valley and the river"
    assert mask_words([text], TAGGER, NOUNS, MASK) == ["the [MASK] feeds the [MASK] and the [MASK]"]
    [others] = mask_words([text], TAGGER, OTHERS, MASK)
    assert Counter(others.split()) >= Counter({MASK: 3, "river": 2, "valley": 1, "feeds": 1})
    assert mask_words(["river feeds valley the"], TAGGER, NOUNS, MASK)[0].count(MASK) == 1  # there is one other word


@given(st.lists(st.sampled_from(sorted(GROUPS)), min_size=1, max_size=30))
def test_both_lose_as_many_words_and_all_others_stay_where_they_are(words):
    texts = [" ".join(words)]
    nouns, others = (mask_words(texts, TAGGER, masked, MASK)[0].split(" ") for masked in (NOUNS, OTHERS))
    assert nouns.count(MASK) == others.count(MASK)
    for masked, group in ((nouns, "noun"), (others, "other")):
        assert all(new == old or (new == MASK and GROUPS[old] == group) for new, old in zip(masked, words, strict=True))


def test_features_are_of_masked_texts_and_with_nothing_masked_it_is_few_shot(texts, tiny_checkpoint, monkeypatch):
    tagger = Tagger("a noun and another", a_noun_and_another)
    monkeypatch.setattr("experiments.protocols.masked_nouns.load_tagger", lambda name: tagger)
    monkeypatch.setattr("experiments.protocols.masked_nouns.tagger_settings", lambda name: {"tagger": name})
    labels = np.array(["river" in text for text in texts], dtype=np.int64)
    task = ClassificationTask("rivers", texts[:32], labels[:32], texts[32:], labels[32:], ["no", "yes"])
    system, settings = load_system(str(tiny_checkpoint), max_length=64), PaperSettings(repeats=2, shots=2)
    evaluation = Evaluation(system, task, str(tiny_checkpoint))
    masked, few = (plan([name], system, task, settings)[0] for name in ("masked_nouns", "few_shot"))
    for one, other in zip(masked, few, strict=True):
        found = one.run(evaluation)
        assert found["nothing_macro_f1"] == other.run(evaluation)["macro_f1"]
    for place, name in enumerate((NOUNS, OTHERS)):
        by_hand = [
            " ".join([*words[:place], MASK, *words[place + 1 :]]) for words in (text.split(" ") for text in texts)
        ]
        features = evaluation.once(_features, name, settings.tagger)
        train, test = system.features(by_hand[:32], by_hand[32:])
        np.testing.assert_array_equal(features.train, train)
        np.testing.assert_array_equal(features.test, test)


def a_noun_and_another(texts):
    """The first word of a text is a noun, the second another."""
    for first, second, *_ in (text.split(" ") for text in texts):
        yield [Word(first, 0, "noun", ""), Word(second, len(first) + 1, "other", "")]
