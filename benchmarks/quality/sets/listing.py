"""All sets that are read from clones."""

from __future__ import annotations

from benchmarks.quality.sets.no_topics import NO_TOPICS
from benchmarks.quality.sets.topics import TOPICS
from benchmarks.quality.sets.versions import VERSIONS

SETS = [*TOPICS, *NO_TOPICS, *VERSIONS]
