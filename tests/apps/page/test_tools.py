"""Tools of docsplit demo --mcp, with a real server and the client of the mcp library."""

import csv
import json

import pytest

from docsplit_hf.apps.page.uploads import example_texts
from docsplit_hf.classifier.row_files import read_rows

from ...event_loops import run_elsewhere
from .conftest import serving

mcp = pytest.importorskip("mcp")


@pytest.fixture
def folder(tmp_path):
    """Twenty example texts with labels, and the others without."""
    given = example_texts()
    labeled = {label: [t for t, one in zip(given.texts, given.labels, strict=True) if one == label] for label in
               sorted(set(filter(None, given.labels)))}  # fmt: skip
    few = [(text, label) for label, texts in labeled.items() for text in texts[:5]]
    files = {"few.csv": few, "others.csv": [(text, "") for text in given.texts if text not in dict(few)]}
    files["formula.csv"] = [("=1+A1", "")]
    (tmp_path / "files").mkdir()
    for name, rows in files.items():
        with open(tmp_path / "files" / name, "w", newline="") as file:
            csv.writer(file).writerows([("body", "kind"), *rows])
    return tmp_path


def test_an_assistant_adds_labels_measures_and_classifies_files(server, folder):
    async def converse(url):
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(f"{url}/gradio_api/mcp/") as (reads, writes, _):
            async with mcp.ClientSession(reads, writes) as session:
                await session.initialize()
                tools = {tool.name: tool for tool in (await session.list_tools()).tools}
                assert set(tools) == {"add", "label", "suggest", "report", "audit", "classify"}
                assert all(tool.description for tool in tools.values())

                async def call(name, **arguments):
                    found = await session.call_tool(name, arguments)
                    return found.isError, found.content[0].text

                assert await call("suggest") == (False, "null")
                assert await call("add", file="few.csv", text_column="body", label_column="kind") == (
                    False, "Added 20 texts with 4 labels and 0 without.")  # fmt: skip
                assert (await call("add", file="others.csv", text_column="body"))[1].endswith("and 53 without.")
                suggested = json.loads((await call("suggest"))[1])
                assert suggested["label"] and "guessed" in suggested["reason"]
                reported = json.loads((await call("label", labels={suggested["id"]: suggested["label"]}))[1])
                assert (reported["labeled"], reported["without_label"]) == (21, 52) and "right" in reported["right"]
                assert len(reported["by_label"]) == 4 and set(reported["answered"]) == {"1", "5", "10", "20"}
                assert json.loads((await call("report"))[1]) == reported
                assert all({"id", "why"} <= set(finding) for finding in json.loads((await call("audit"))[1]))
                classified = await call("classify", file="others.csv", text_column="body", answers="answers.csv")
                assert classified == (False, "Classified 53 rows.")
                rows = list(csv.DictReader(open(folder / "files" / "answers.csv", newline="")))
                assert len(rows) == 53 and {row["label"] for row in rows} <= {row[0] for row in reported["by_label"]}
                sure = await call("classify", file="others.csv", text_column="body", answers="sure.csv", reject=0.2)
                assert not sure[0] and "got no label" in sure[1]
                classified = await call("classify", file="formula.csv", text_column="body", answers="harmless.csv")
                assert classified == (False, "Classified 1 row.")
                (row,) = csv.DictReader(open(folder / "files" / "harmless.csv", newline=""))
                assert row["body"] == "'=1+A1" and next(read_rows(folder / "files" / "harmless.csv"))["body"] == "=1+A1"
                for name, arguments, said in (
                    (
                        "classify",
                        {"file": "others.csv", "text_column": "body", "answers": "answers.csv"},
                        "is there already",
                    ),
                    (
                        "classify",
                        {"file": "others.csv", "text_column": "body", "answers": "more.csv", "reject": 5},
                        "is not an error rate",
                    ),
                    ("add", {"file": "../page.py", "text_column": "text"}, "is not below"),
                    ("add", {"file": "few.csv", "text_column": "text"}, "has no column 'text', only ['body', 'kind']"),
                    ("label", {"labels": {"d999": "sport"}}, "not there any more"),
                ):
                    failed, text = await call(name, **arguments)
                    assert failed and said in text

    with serving(folder, f"--mcp={folder / 'files'}") as url:
        run_elsewhere(converse(url))
