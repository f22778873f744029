"""The trace counts the files and functions of the package, and nothing else."""

import json

from benchmarks.release.answer_trace import trace
from docsplit_hf.reading.characters import replace_lone_surrogates


def test_functions_of_the_package_are_counted_by_file_and_others_are_not():
    found = trace("replace", lambda: [replace_lone_surrogates(json.loads('"a"')) for _ in range(3)])
    record = found.record()
    assert record["functions_by_file"] == {"reading/characters.py": ["replace_lone_surrogates"]}
    assert (record["files"], record["functions"], record["calls"]) == (1, 1, 3)
    assert trace("nothing", lambda: json.loads("1")).record()["calls"] == 0
