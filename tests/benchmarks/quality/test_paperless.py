"""The archive of the measurement with paperless-ngx, and what is counted; paperless itself is not started."""

import gzip
import json
from collections import Counter

from benchmarks.quality.paperless.__main__ import Counts
from benchmarks.quality.paperless.archive import SETS, read_archive


def test_archive(tmp_path):
    for name, (_, step) in SETS.items():
        (tmp_path / name).mkdir()
        head = "Newsgroups: secret\n\n" if name == "20news" else "<PAGE> "
        with gzip.open(tmp_path / name / "train.jsonl.gz", "wt") as file:
            for number in range(60):
                text = f"{head}> quoted\nNumber {number % 50}. " + "A sentence of the text. " * 10
                file.write(json.dumps({"text": text, "label": f"{name} {number % (2 * step)}"}) + "\n")
    archive = read_archive(tmp_path, per_value=3, arriving=30, batches=2, seed=0)
    assert set(Counter((paper.field, paper.value) for paper in archive.sorted_at_first).values()) == {3}
    later = [paper for batch in archive.batches for paper in batch]
    assert [len(batch) for batch in archive.batches] == [15, 15]
    assert Counter(paper.field for paper in later) == dict.fromkeys(("document_type", "correspondent", "tags"), 10)
    texts = [(paper.field, paper.text) for paper in (*archive.sorted_at_first, *later)]
    assert len(set(texts)) == len(texts)
    assert not any("secret" in text or "<PAGE>" in text for _, text in texts)
    assert not any("quoted" in text for field, text in texts if field == "correspondent")
    assert archive == read_archive(tmp_path, per_value=3, arriving=30, batches=2, seed=0)


def test_counts():
    counts = Counts()
    for truth, value, is_in_inbox in [
        ("a", "a", True),
        ("a", "b", True),
        ("a", None, True),  # left to a person
        ("a", None, False),  # nobody will see that it has none
        (None, None, False),
        (None, "a", True),
    ]:
        counts.add(truth, value, is_in_inbox)
    assert counts == Counts(with_value=4, right=1, wrong=2, left=1, without_value=2, given=1)
