"""Each format: its text and its places."""

import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.reading.files.failures import (
    DAMAGED,
    EMPTY,
    ENCRYPTED,
    SCANNED,
    TOO_MANY_PAGES,
    UNKNOWN_FORMAT,
    Refusal,
)
from docsplit_hf.reading.files.formats import read_text
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.places import EMBEDDED, KINDS, Place
from docsplit_hf.reading.files.readers.mails import OTHER_VERSION
from docsplit_hf.reading.files.readers.outlook_mails import NO_CONTENT, PACKED_RICH_TEXT

from .sample_files import (
    RELATIONS,
    TYPE,
    WORD,
    make_docx,
    make_epub,
    make_mail,
    make_odt,
    make_ole,
    make_pdf,
    make_pptx,
    make_xlsx,
    make_zip,
    paragraph,
)

pytest.importorskip("pypdfium2", reason="The extra files is not installed.")
BREAK = "<w:p><w:r><w:t>before </w:t><w:lastRenderedPageBreak/><w:t>after</w:t></w:r></w:p>"


def read(content, name="file", **options):
    return read_text(content, name, FileOptions(**options))


def places(found):
    """The kind and name of each place, with its text."""
    return [(place.kind, place.name, found.text[place.start : place.end]) for place in found.places]


def refusal(content, name="file", **options):
    with pytest.raises(Refusal) as caught:
        read(content, name, **options)
    return caught.value.reason


def test_a_pdf_file_has_its_pages():
    found = read(make_pdf(["The first page.\nIt has two lines.", "The second (page)."]))
    assert places(found) == [
        ("page", "1", "The first page.\nIt has two lines."),
        ("page", "2", "The second (page)."),
    ]


def test_an_empty_page_is_no_place_and_keeps_its_number():
    assert [place.name for place in read(make_pdf(["One.", "", "Three."])).places] == ["1", "3"]


def test_a_word_file_has_tables_notes_and_no_deleted_text():
    table = f"<w:tbl><w:tr><w:tc>{paragraph('a')}</w:tc><w:tc>{paragraph('b')}</w:tc></w:tr></w:tbl>"
    deleted = "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins></w:p>"
    notes = f"<w:footnotes {WORD}>{paragraph('A note.')}</w:footnotes>"
    relation = f'<Relationship Id="r9" Type="{TYPE}/footnotes" Target="footnotes.xml"/>'
    content = make_docx(paragraph("One &amp; only.") + table + deleted, relation, **{"word/footnotes.xml": notes})
    found = read(content)
    assert found.text == "One & only.\na \tb\nnew\nA note."
    assert places(found) == [("part", "footnotes", "A note.")]


def test_a_word_file_has_the_pages_that_word_saved():
    assert places(read(make_docx(BREAK + paragraph("end")))) == [("page", "1", "before"), ("page", "2", "after\nend")]
    assert read(make_docx(paragraph("no pages"))).places == ()


def test_slides_come_in_the_order_of_the_show():
    found = read(make_pptx(["zero", "one", "two"], order=[2, 0, 1]))
    assert places(found) == [("slide", "1", "two"), ("slide", "2", "zero"), ("slide", "3", "one")]


def test_sections_of_slides_are_no_slides():
    sections = '<p14:sldIdLst xmlns:p14="urn:p14"><p14:sldId id="256"/><p14:sldId id="257"/></p14:sldIdLst>'
    assert [place.name for place in read(make_pptx(["one", "two"], sections=sections)).places] == ["1", "2"]


def test_a_slide_that_is_missing_is_named_and_the_others_are_read():
    found = read(make_pptx(["one"], order=[0, 7]))
    assert places(found) == [("slide", "1", "one")] and found.left_out == (("slide 2", "missing"),)


@pytest.mark.parametrize("kind", ["diagramData", "chart", "notesSlide"])
def test_a_slide_has_the_text_of_its_diagrams_charts_and_notes(kind):
    relation = f'<Relationship Id="r1" Type="{TYPE}/{kind}" Target="../beside.xml"/>'
    beside = '<x xmlns:a="urn:a"><a:p><a:r><a:t>beside</a:t></a:r></a:p></x>'
    members = {
        "ppt/slides/_rels/slide0.xml.rels": f"<Relationships {RELATIONS}>{relation}</Relationships>",
        "ppt/beside.xml": beside,
    }
    assert places(read(make_pptx(["one"], **members))) == [("slide", "1", "one\nbeside")]


def test_a_word_file_has_the_text_of_its_diagrams():
    relation = f'<Relationship Id="r9" Type="{TYPE}/diagramData" Target="diagram.xml"/>'
    diagram = '<x xmlns:a="urn:a"><a:p><a:r><a:t>A box.</a:t></a:r></a:p></x>'
    found = read(make_docx(paragraph("Body."), relation, **{"word/diagram.xml": diagram}))
    assert places(found) == [("part", "diagramData", "A box.")]


def test_files_that_are_embedded_in_documents_are_named():
    relation = f'<Relationship Id="r8" Type="{TYPE}/package" Target="embeddings/a.xlsx"/>'
    slide = f"<Relationships {RELATIONS}>{relation}</Relationships>"
    names = b"<< /EmbeddedFiles << /Names [(a.xlsx) << /Type /Filespec /F (a.xlsx) >>] >> >>"
    catalog = b"<< /Type /Catalog /Pages 2 0 R /Names " + names + b" >>"
    for content in (
        make_docx(paragraph("Body."), relation),
        make_pptx(["Body."], **{"ppt/slides/_rels/slide0.xml.rels": slide}),
        make_pdf(["Body."]).replace(b"<< /Type /Catalog /Pages 2 0 R >>", catalog),
    ):
        assert read(content).left_out == (("a.xlsx", EMBEDDED),)


def test_pictures_that_unpack_to_much_are_no_reason_to_refuse_a_document():
    found = read(make_docx(paragraph("Body."), **{"word/media/white.emf": bytes(5_000_000)}))
    assert found.text == "Body."


def test_a_spreadsheet_has_its_sheets():
    found = read(make_xlsx({"Invoices": [["a", "b"], ["c", "d"]], "Other": [["e"]]}))
    assert places(found) == [("sheet", "Invoices", "a\tb\nc\td"), ("sheet", "Other", "e")]


def test_open_documents_have_pages_or_slides():
    text = "<text:h>Title</text:h><text:p>a<text:s text:c='2'/>b<text:soft-page-break/>c</text:p>"
    assert places(read(make_odt(text))) == [("page", "1", "Title\na  b"), ("page", "2", "c")]
    slides = "".join(f"<draw:page><text:p>{word}</text:p></draw:page>" for word in ("one", "two"))
    assert places(read(make_odt(slides, kind="presentation"))) == [("slide", "1", "one"), ("slide", "2", "two")]


def test_a_text_about_presentations_is_no_presentation():
    assert read(make_odt("<text:p>The element office:presentation.</text:p>")).places == ()


def test_an_open_document_has_sheets_with_cells_as_they_are_shown():
    row = "<table:table-row> <table:table-cell office:value='0.5'><text:p>50 %</text:p></table:table-cell> "
    row += "<table:table-cell table:number-columns-repeated='1000'/></table:table-row>"
    row += "<table:table-row table:number-rows-repeated='1000000'><table:table-cell/></table:table-row>"
    sheets = "".join(f"<table:table table:name='{name}'> {row}</table:table>" for name in ("A", "B"))
    assert places(read(make_odt(sheets, kind="spreadsheet"))) == [("sheet", "A", "50 %"), ("sheet", "B", "50 %")]


def test_a_book_has_its_chapters():
    chapter = "<html><head><title>{0}</title></head><body><p>Text of {0}.</p></body></html>"
    found = read(make_epub([chapter.format("One"), chapter.format("Two")]))
    assert places(found) == [("part", "One", "One\nText of One."), ("part", "Two", "Two\nText of Two.")]


def test_a_mail_has_its_body_and_attachments_and_names_those_that_fail():
    attachments = [("offer.pdf", make_pdf(["A price."])), ("logo.png", b"\x89PNG\r\n\x1a\n\x00\x00")]
    found = read(make_mail("Dear all,\nsee below.", attachments))
    assert places(found) == [
        ("part", "body", "Subject: An offer\nFrom: one@example.org\nTo: two@example.org\n\nDear all,\nsee below."),
        ("part", "attachment: offer.pdf, page 1", "A price."),
    ]
    assert found.left_out == (("attachment: logo.png", UNKNOWN_FORMAT),)


def test_a_zip_file_has_its_members():
    inner = make_zip({"c.txt": "in two"})
    found = read(make_zip({"a.txt": "first", "sub/b.docx": make_docx(paragraph("second")), "d.zip": inner}))
    assert places(found) == [
        ("part", "a.txt", "first"), ("part", "sub/b.docx", "second"), ("part", "d.zip, c.txt", "in two")
    ]  # fmt: skip


def test_two_members_of_one_name_are_two():
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = make_zip([("a.txt", "first"), ("a.txt", "second")])
    assert places(read(content)) == [("part", "a.txt", "first"), ("part", "a.txt", "second")]


def test_a_pdf_file_that_is_stored_in_a_zip_file_is_one_of_its_members():
    content = make_zip({"a.pdf": make_pdf(["A page."]), "b.txt": "second"}, zipfile.ZIP_STORED)
    assert b"%PDF-" in content[:1024]
    for name in ("a.zip", "a.doc"):
        assert places(read(content, name)) == [("part", "a.pdf, page 1", "A page."), ("part", "b.txt", "second")]


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a", "a.html", "a.eml", "a.doc"])
def test_a_text_about_pdf_files_is_none(name):
    assert "begins with %PDF-1.7" in read(b"A PDF file begins with %PDF-1.7 and has pages.", name).text


def test_a_pdf_file_may_begin_after_other_bytes():
    assert places(read(b"\r\nHTTP/1.1 200 OK\r\n\r\n" + make_pdf(["A page."]))) == [("page", "1", "A page.")]


WORD_XML = f"<?xml version='1.0'?><?mso-application progid='Word.Document'?><w:wordDocument {WORD}><w:body>"
FORGED = {
    "HTML": b"<html xmlns:o='urn:o'><p>Text.",
    "a table": b"<table><tr><td>Text.",
    "RTF": rb"{\rtf1 Text.}",
    "Word": make_docx(paragraph("Text.")),
    "Word 2003": f"{WORD_XML}{paragraph('Text.')}</w:body></w:wordDocument>".encode(),
    "zip": make_zip({"a.txt": "Text."}),
    "OpenDocument": make_odt("<text:p>Text.</text:p>"),
    "a saved page": b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n--x\nContent-Type: text/html\n"
    b"\n<p>Text.\n--x--",
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_file_with_the_name_of_a_word_file_is_read_as_what_it_is(kind):
    assert read(FORGED[kind], "a.doc").text.strip() == "Text."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html><script>x</script></html>", "read as HTML"),
        (rb"{\rtf1 }", "read as RTF"),
        (make_docx(""), "read as Word"),
        (make_docx("")[:-30], "zip: "),
        (make_zip({"a.png": b"\x89PNG\x00"}), "read as zip; a.png: unknown format"),
        (make_pdf(["Text."])[:60], "read as PDF"),
        (b"\x89PNG\r\n\x1a\n\x00", "a picture (PNG)"),
        (b"MZ\x90\x00", "a program"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "Microsoft's old container"),
        (b"-----BEGIN PGP MESSAGE-----\n\nabc", ""),
    ],
)
def test_the_error_says_what_a_file_is(content, said):
    with pytest.raises(Refusal) as caught:
        read(content, "a.doc")
    assert said in caught.value.detail


def test_html_has_lines_for_blocks_and_no_scripts():
    page = "<!doctype html><title>T</title><script>no()</script>"
    page += "<p>one <b>t</b>wo<br>three<pre>a\n  b</pre><table><tr><td>x<td>y</table>"
    assert read(page.encode()).text == "T\none two\nthree\na\nb\nx y"


def test_html_is_in_the_encoding_that_it_declares():
    page = '<html><head><meta http-equiv="Content-Type" content="text/html; charset={0}"></head><p>Привет'
    assert read(page.format("koi8-r").encode("koi8-r")).text == "Привет"
    assert read(page.format("no-such").encode()).text == "Привет"
    assert read(page.format("ascii").encode()).text == "Привет"


def test_rich_text():
    assert read(rb"{\rtf1\ansi One {\b two}\par w\'f6rter}").text == "One two\nwörter"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_plain_text_in_its_encoding(encoding):
    text = "Die Straße führt über den Fluss, und natürlich ist sie schön. " * 5
    found = read(text.encode(encoding), "a.txt")
    assert found.text == text.strip() and found.places == ()


def test_a_given_encoding_is_used_or_refused():
    assert read("é".encode("cp850"), "a.txt", encoding="cp850").text == "é"
    assert refusal(b"\xff", "a.txt", encoding="utf-8") == DAMAGED


@pytest.mark.parametrize("name", ["contract.txt", "contract.docx", "contract", "contract.PDF"])
def test_the_content_decides_and_not_the_name(name):
    assert [place.kind for place in read(make_pdf(["A page."]), name).places] == ["page"]


def test_text_files_are_read_as_they_are():
    for mail in (b"From: a@example.org\nSubject: x\n\n<html>", b"From a@b 10:00 2026\nSubject: x\n\n<html>"):
        assert read(mail, "a.txt").text == mail.decode()
    assert read(b"# Title\n\n<b>bold</b>", "a.md").text == "# Title\n\n<b>bold</b>"


def test_failures_are_told_apart():
    scan = make_pdf(["", ""], picture_on=(0, 1))
    assert refusal(scan) == SCANNED
    assert refusal(make_pdf(["", ""])) == EMPTY
    assert refusal(b"") == refusal(b" \n") == EMPTY
    assert refusal(make_pdf(["A page."])[:80]) == DAMAGED
    assert refusal(make_docx(paragraph("x"))[:-30]) == DAMAGED
    assert refusal(bytes(range(256))) == UNKNOWN_FORMAT
    assert refusal(make_pdf(["p"] * 4), max_pages=3) == TOO_MANY_PAGES


def test_pictures_beside_text_are_counted_and_no_failure():
    found = read(make_pdf(["A page with enough text to count as one.", "", "Another page of text."], picture_on=(0, 1)))
    assert found.left_out == (("page 2", SCANNED),) and len(found.places) == 2


def test_a_mail_of_outlook_has_its_body_and_attachments():
    wide = {"0037": "An offer", "0C1A": "One", "1000": "Dear all,\r\nsee below."}
    streams = {f"__substg1.0_{tag}001F": text.encode("utf-16-le") for tag, text in wide.items()}
    attached = "__attach_version1.0_#00000000/__substg1.0_"
    streams |= {"__properties_version1.0": b"", f"{attached}3707001F": "a.txt".encode("utf-16-le")}
    streams[f"{attached}37010102"] = b"A price. " * 512  # whole sectors, without padding
    found = read(make_ole(streams))
    assert [(place.kind, place.name) for place in found.places] == [("part", "body"), ("part", "attachment: a.txt")]
    assert found.text.startswith("Subject: An offer\nFrom: One\n\nDear all,\nsee below.\nA price. A price.")


def test_a_mail_of_outlook_has_the_mails_attached_to_it():
    inner = "__attach_version1.0_#00000000/__substg1.0_3701000D"
    deeper = f"{inner}/__attach_version1.0_#00000000/"
    texts = {
        "__substg1.0_0037001F": "Outer",
        f"{inner}/__substg1.0_0037001F": "Inner",
        f"{inner}/__substg1.0_1000001F": "The inner body.",
        f"{deeper}__substg1.0_3707001F": "a.txt",
    }
    streams = {path: text.encode("utf-16-le") for path, text in texts.items()}
    streams |= {"__properties_version1.0": b"", f"{inner}/__properties_version1.0": b""}
    streams[f"{deeper}__substg1.0_37010102"] = b"A price. " * 512
    found = read(make_ole(streams))
    assert [(name, text[:40]) for _, name, text in places(found)] == [
        ("body", "Subject: Outer"),
        ("attachment: Inner", "Subject: Inner\n\nThe inner body."),
        ("attachment: a.txt", "A price. A price. A price. A price. A pri"[:40]),
    ]


def test_a_mail_of_outlook_loses_nothing_in_silence():
    attached = "__attach_version1.0_#0000000{0}/__substg1.0_"
    texts = {"0E03": "copied", "1000": "stub"}
    streams = {f"__substg1.0_{tag}001F": text.encode("utf-16-le") for tag, text in texts.items()}
    streams |= {"__properties_version1.0": b"", "__substg1.0_10130102": b"<p>the whole body".ljust(4096)}
    for number in range(2):
        streams[attached.format(number) + "3707001F"] = "a.txt".encode("utf-16-le")
        streams[attached.format(number) + "37010102"] = (b"first. ", b"second. ")[number].ljust(4096)
    streams[attached.format(2) + "3701000D/CONTENTS"] = b"an object"
    streams[attached.format(3) + "3707001F"] = "link.txt".encode("utf-16-le")
    found = read(make_ole(streams))
    assert [word in found.text for word in ("copied", "the whole body", "first.", "second.")] == [True] * 4
    assert [(part.name, part.reason) for part in found.left_out] == [
        ("body as plain text", OTHER_VERSION),
        ("attachment: __attach_version1.0_#00000002", NO_CONTENT),
        ("attachment: link.txt", NO_CONTENT),
    ]


def test_rich_text_in_a_mail_of_outlook_is_named():
    subject = {"__substg1.0_0037001F": "An offer".encode("utf-16-le")}
    found = read(make_ole(subject | {"__properties_version1.0": b"", "__substg1.0_10090102": b"packed"}))
    assert found.left_out == (("body", PACKED_RICH_TEXT),)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [("EncryptedPackage", ENCRYPTED), ("Other", UNKNOWN_FORMAT), ("Workbook", DAMAGED)],
)
def test_damaged_and_encrypted_office_files_are_named(stream, reason):
    assert refusal(make_ole({stream: b"content"})) == reason


def test_a_picture_in_rich_text_without_its_length_is_left_out():
    assert read(rb"{\rtf1\ansi {\pict\picwgoal28 \bin ffd8ff}A text.\par}").text == "A text."


def test_an_encrypted_pdf_file_is_named():
    encrypt = b"/Encrypt << /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <%s> /U <%s> >> /ID [<00> <00>]" % (
        b"11" * 32,
        b"22" * 32,
    )
    assert refusal(make_pdf(["secret"], extra=encrypt)) == ENCRYPTED


WORDS = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.text(max_size=5), WORDS), max_size=8))
def test_a_place_spans_the_text_of_its_part(given_parts):
    from docsplit_hf.reading.files.parts import Content, Part, join_parts

    parts = [Part(kind, name, text) for kind, name, text in given_parts]
    try:
        found = join_parts(Content(parts), FileOptions())
    except Refusal as error:
        assert error.reason == EMPTY
        return
    alone = [join_parts(Content([part]), FileOptions()).text for part in parts if _has_text(part)]
    assert [found.text[place.start : place.end] for place in found.places] == alone
    assert found.text == "\n".join(alone)
    for before, after in zip(found.places, found.places[1:], strict=False):
        assert before.end < after.start


def _has_text(part):
    return bool(part.text.strip())


@given(st.lists(st.lists(st.text("abc 1", max_size=12), max_size=6), min_size=1, max_size=2))
def test_pages_of_a_pdf_file_are_their_places(pages):
    texts = ["\n".join(page) for page in pages]
    try:
        found = read(make_pdf(texts))
    except Refusal as error:
        assert error.reason == EMPTY
        return
    for place in found.places:
        expected = texts[int(place.name) - 1]
        assert "".join(found.text[place.start : place.end].split()) == "".join(expected.split())
        assert isinstance(place, Place)
