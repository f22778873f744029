"""What fitted answers are by each kind of datastore: the page on the datastore."""

from ..commands import ROOT
from .records import content


def test_datastore():
    text = (ROOT / "docs" / "datastore.md").read_text(encoding="utf-8")
    same = {name: share for name, share, _ in content("fitted_answers.json")["stores"]}
    assert {same[name] for name in ("mapped", "shards", "milvus-lite")} == {1.0}
    assert same["index IVF28,Flat"] == same["shards, index IVF28,Flat"] >= 0.99
    assert f'`"IVF28,Flat"` {100 * same["index IVF28,Flat"]:.1f} % of them' in text
    assert [share for _, share, _ in content("fitted_answers.json")["passages"]] == [1.0, 1.0]
