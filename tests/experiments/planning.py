"""Plans of the papers' protocols by name."""

from experiments.evaluation import experiment
from experiments.papers import PROTOCOLS
from experiments.protocols.redundancy import NOUNS_AND_VERBS

BY_TAGGER = {"nouns_and_verbs": NOUNS_AND_VERBS}


def plan(names, system, task, settings):
    known = PROTOCOLS | BY_TAGGER
    return experiment.plan({name: known[name] for name in names}, system, task, settings)
