"""Planning the papers' protocols by their names."""

from docsplit_hf.evaluation import experiment
from experiments.papers import PROTOCOLS
from experiments.protocols.redundancy import NOUNS_AND_VERBS

BY_TAGGER = {"nouns_and_verbs": NOUNS_AND_VERBS}


def plan(names, system, task, settings):
    return experiment.plan({name: (PROTOCOLS | BY_TAGGER)[name] for name in names}, system, task, settings)
