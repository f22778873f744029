"""Mails as clients and list servers make them: each text is found, or named as left out."""

import importlib.resources
import importlib.util
from email import message_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.reading.files.failures import DAMAGED, UNKNOWN_FORMAT, Refusal
from docsplit_hf.reading.files.formats import read_text
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.readers.mails import OTHER_VERSION

from ..sample_files import make_pdf, make_zip
from ..sample_mails import MAILS, attached, forwarded, leaf, mail, tree

pytest.importorskip("pypdfium2", reason="The extra files is not installed.")


def read(content, name="a.eml"):
    return read_text(content, name, FileOptions())


@pytest.mark.parametrize("name", MAILS)
def test_each_part_of_a_mail_is_read_or_named(name):
    content, words, left_out = MAILS[name]
    for file_name in ("a.eml", "a.doc"):
        found = read(content, file_name)
        assert not [word for word in words.split() if word not in found.text]
        assert found.left_out == left_out


def test_versions_of_a_text_are_read_once():
    assert read(MAILS["Gmail"].content).text.count("hello") == 1
    assert read(MAILS["Apple Mail"].content).text.count("one") == 1


def test_characters_that_cannot_be_decoded_are_replaced():
    assert read(mail(leaf("text/plain", b"\xef\xbb\xbfa\xff"))).text.endswith("a\ufffd")


def test_a_file_in_a_mail_in_a_zip_file_is_named_with_both():
    found = read(make_zip({"a.eml": MAILS["Exchange, TNEF"].content}))
    assert found.left_out == (("a.eml, attachment: winmail.dat", UNKNOWN_FORMAT),)


def test_parts_in_one_another_without_end_are_refused():
    content = leaf("text/plain", "hello")
    for _ in range(1500):
        content = tree("mixed", content)
    with pytest.raises(Refusal) as caught:
        read(mail(content))
    assert caught.value.reason == DAMAGED


@pytest.mark.skipif(
    importlib.util.find_spec("test.test_email") is None, reason="Python is installed without its tests."
)
def test_the_mails_of_pythons_own_tests():
    folder = importlib.resources.files("test.test_email") / "data"
    for file in sorted(folder.iterdir(), key=str):
        if not file.name.startswith("msg_") or file.name == "msg_18.txt":  # which is a single header of no use
            continue
        content = file.read_bytes()
        found = read(content)
        for part in message_from_bytes(content).walk():
            if part.get_content_type() == "text/plain" and not part.is_multipart():
                text = (part.get_payload(decode=True) or b"").decode("latin-1")
                missing = [word for word in text.split() if word.isascii() and word not in found.text]
                assert not missing or found.left_out, (file.name, missing)


TREES = st.recursive(
    st.sampled_from(["plain", "html", "csv", "attached", "pdf"]).map(lambda kind: (kind, [])),
    lambda trees: st.tuples(
        st.sampled_from(["mixed", "alternative", "related", "signed", "report", "unheard-of", "rfc822"]),
        st.lists(trees, min_size=1, max_size=4),
    ),
    max_leaves=12,
)


def made(node, words):
    """The part that a tree stands for, with a new word in each leaf."""
    kind, children = node
    if children:
        parts = [made(child, words) for child in children]
        return forwarded(mail(tree("mixed", *parts))) if kind == "rfc822" else tree(kind, *parts)
    words.append(f"w{len(words)}w")
    if kind == "attached":
        return attached("a.txt", words[-1])
    if kind == "pdf":
        return attached("a.pdf", make_pdf(words[-1:]))
    return leaf(f"text/{kind}", f"<p>{words[-1]}</p>" if kind == "html" else words[-1])


def has_versions(node):
    """Whether a tree has several versions of a text."""
    kind, children = node
    return kind == "alternative" or any(has_versions(child) for child in children)


@given(TREES)
def test_no_tree_of_parts_loses_a_text_in_silence(node):
    words = []
    found = read(mail(made(node, words)))
    missing = [word for word in words if word not in found.text]
    assert bool(missing) == bool(found.left_out)
    assert all(part.reason == OTHER_VERSION for part in found.left_out)
    assert not missing or has_versions(node)
