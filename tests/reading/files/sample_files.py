"""Small files of each format, made by hand."""

import io
import struct
import zipfile
from email.message import EmailMessage

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATIONS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def make_zip(members, compression=zipfile.ZIP_DEFLATED):
    """A zip file of members by name, or of pairs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items() if isinstance(members, dict) else members:
            file.writestr(name, content)
    return buffer.getvalue()


def make_pdf(pages, picture_on=(), extra=b""):
    """A PDF file with the lines of each page, and a picture of a pixel on some pages."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    objects.append(
        b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 "
        b"/Length 1 >>\nstream\n\x00\nendstream"
    )
    kids = []
    for number, page in enumerate(pages):
        lines = b"".join(
            b"(%s) Tj T* " % line.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
            for line in page.split("\n")
        )
        drawing = b"BT /F1 12 Tf 14 TL 50 800 Td " + lines + b"ET"
        if number in picture_on:
            drawing += b" q 500 0 0 500 50 50 cm /P Do Q"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing))
        kids.append(len(objects) + 1)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> /XObject << /P 4 0 R >> >> >>" % len(objects)
        )
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % kid for kid in kids), len(kids))
    return assemble_pdf(objects, extra)


def assemble_pdf(objects, extra=b""):
    """A PDF file of objects, the first of which is the catalog."""
    content = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    trailer = b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF" % (count, extra, len(content))
    return bytes(content) + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (count, table, trailer)


def make_docx(body, relations="", **members):
    """A Word file with the XML of a body."""
    return make_zip(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": f'<Relationships {RELATIONS}><Relationship Id="r1" Type="{TYPE}/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
            "word/_rels/document.xml.rels": f"<Relationships {RELATIONS}>{relations}</Relationships>",
            "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
            **members,
        }
    )


def paragraph(text):
    """A paragraph of a Word file."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def make_pptx(slides, order=None, sections="", **others):
    """A PowerPoint file with a paragraph on each slide, which are shown in an order of their numbers from 0."""
    order = range(len(slides)) if order is None else order
    ids = "".join(f'<p:sldId id="{256 + number}" r:id="r{number}"/>' for number in order)
    relations = "".join(
        f'<Relationship Id="r{number}" Type="{TYPE}/slide" Target="slides/slide{number}.xml"/>'
        for number in range(len(slides))
    )
    names = f'xmlns:p="urn:p" xmlns:r="{TYPE}"'
    members = {
        "[Content_Types].xml": "<Types/>",
        "ppt/presentation.xml": f"<p:presentation {names}><p:sldIdLst>{ids}</p:sldIdLst>{sections}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": f"<Relationships {RELATIONS}>{relations}</Relationships>",
    }
    for number, text in enumerate(slides):
        members[f"ppt/slides/slide{number}.xml"] = (
            f'<p:sld xmlns:p="urn:p" xmlns:a="urn:a"><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>'
        )
    return make_zip(members | others)


def make_xlsx(sheets):
    """A spreadsheet with rows of texts by the name of their sheet."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    listed = "".join(
        f'<sheet name="{name}" sheetId="{number}" r:id="r{number}"/>' for number, name in enumerate(sheets, start=1)
    )
    relations = "".join(
        f'<Relationship Id="r{number}" Type="{TYPE}/worksheet" Target="worksheets/sheet{number}.xml"/>'
        for number in range(1, len(sheets) + 1)
    )
    members = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": f'<Relationships {RELATIONS}><Relationship Id="r1" Type="{TYPE}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{TYPE}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f"<Relationships {RELATIONS}>{relations}</Relationships>",
    }
    for number, rows in enumerate(sheets.values(), start=1):
        lines = "".join(
            f'<row r="{row}">'
            + "".join(
                f'<c r="{chr(64 + column)}{row}" t="inlineStr"><is><t>{cell}</t></is></c>'
                for column, cell in enumerate(cells, start=1)
            )
            + "</row>"
            for row, cells in enumerate(rows, start=1)
        )
        members[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'
        )
    return make_zip(members)


def make_odt(body, doctype="", kind="text"):
    """An OpenDocument file with the XML of a body."""
    names = 'xmlns:office="urn:o" xmlns:text="urn:t" xmlns:draw="urn:d" xmlns:table="urn:table"'
    return make_zip(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"{doctype}<office:document-content {names}><office:body><office:{kind}>{body}"
            f"</office:{kind}></office:body></office:document-content>",
        }
    )


def make_epub(chapters):
    """A book of chapters, given by their HTML."""
    items = "".join(
        f'<item id="c{number}" href="c{number}.xhtml" media-type="application/xhtml+xml"/>'
        for number in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{number}"/>' for number in range(len(chapters)))
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="OEBPS/book.opf"/></container>',
        "OEBPS/book.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
    }
    members |= {f"OEBPS/c{number}.xhtml": chapter for number, chapter in enumerate(chapters)}
    return make_zip(members)


def make_mail(body, attachments=()):
    """A mail with attachments, given by name and content."""
    message = EmailMessage()
    message["Subject"] = "An offer"
    message["From"] = "one@example.org"
    message["To"] = "two@example.org"
    message.set_content(body)
    for name, content in attachments:
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


SECTOR = 512
END_OF_CHAIN = 0xFFFFFFFE
FREE = 0xFFFFFFFF


def make_ole(streams):
    """A file of Microsoft's old container, with streams by path; each is padded with zeros to 4,096 bytes."""
    entries = [["Root Entry", 5, FREE, FREE, FREE, END_OF_CHAIN, 0]]
    number_of = {(): 0}
    last_child = {}
    sectors = []
    table = []
    for path, content in sorted(streams.items()):
        parts = tuple(path.split("/"))
        for depth in range(1, len(parts) + 1):
            if parts[:depth] in number_of:
                continue
            number = number_of[parts[:depth]] = len(entries)
            entries.append([parts[depth - 1], 2 if depth == len(parts) else 1, FREE, FREE, FREE, END_OF_CHAIN, 0])
            parent = number_of[parts[: depth - 1]]
            if parent in last_child:
                entries[last_child[parent]][3] = number  # to the right of the one before
            else:
                entries[parent][4] = number
            last_child[parent] = number
        padded = content + bytes(max(4096 - len(content), -len(content) % SECTOR))
        entries[number_of[parts]][5:] = [len(sectors), len(padded)]
        chain = range(len(sectors) + 1, len(sectors) + len(padded) // SECTOR)
        sectors += [padded[start : start + SECTOR] for start in range(0, len(padded), SECTOR)]
        table += [*chain, END_OF_CHAIN]
    directory = b"".join(_ole_entry(*entry) for entry in entries)
    directory += bytes(-len(directory) % SECTOR)
    first_of_directory = len(sectors)
    count = len(directory) // SECTOR
    table += [*range(first_of_directory + 1, first_of_directory + count), END_OF_CHAIN, 0xFFFFFFFD]
    assert len(table) <= SECTOR // 4
    sectors += [directory[start : start + SECTOR] for start in range(0, len(directory), SECTOR)]
    table += [FREE] * (SECTOR // 4 - len(table))
    place_of_table = len(sectors)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + b"\x3e\x00\x03\x00\xfe\xff\x09\x00\x06\x00" + bytes(6)
    numbers = (0, 1, first_of_directory, 0, 4096, END_OF_CHAIN, 0, END_OF_CHAIN, 0, place_of_table, *[FREE] * 108)
    return header + _numbers(numbers) + b"".join(sectors) + _numbers(table)


def _ole_entry(name, kind, left, right, child, start, size):
    """An entry of the directory."""
    encoded = (name + "\0").encode("utf-16-le")
    head = encoded.ljust(64, b"\0") + len(encoded).to_bytes(2, "little") + bytes([kind, 1])
    return head + _numbers((left, right, child)) + bytes(36) + _numbers((start, size, 0))


def _numbers(values):
    """Numbers of 4 bytes."""
    return b"".join(value.to_bytes(4, "little") for value in values)


def make_doc(text):
    """A Word 97 file of one piece of text, with a carriage return at the end of each paragraph."""
    content = text.encode("utf-16-le")
    start = 1_024  # of the text
    pieces = struct.pack("<IIHIH", 0, len(text), 0, start, 0)
    table = b"\x02" + struct.pack("<I", len(pieces)) + pieces
    header = bytearray(start)
    struct.pack_into("<HH", header, 0, 0xA5EC, 0x00C1)
    struct.pack_into("<H", header, 0x0A, 0x0200)  # the table is in 1Table
    struct.pack_into("<II", header, 0x18, start, start + len(content))
    struct.pack_into("<H", header, 0x20, 14)  # sizes of the arrays of the header
    struct.pack_into("<H", header, 0x3E, 22)
    struct.pack_into("<I", header, 0x4C, len(text))
    struct.pack_into("<H", header, 0x98, 93)
    struct.pack_into("<II", header, 0x1A2, 0, len(table))
    return make_ole({"WordDocument": bytes(header) + content, "1Table": table})


def make_ppt(slides):
    """A PowerPoint 97 file with the title and the texts of each slide."""
    lists = b"".join(
        _record(1011, struct.pack("<IIiII", number + 2, 4, len(texts), 256 + number, 0)) + _text_atoms(texts)
        for number, texts in enumerate(slides)
    )
    records = [_record(1000, _record(1001, bytes(40), version=1) + _record(4080, lists, version=15), version=15)]
    for texts in slides:
        boxes = b"".join(_nested((0xF004, 0xF00D), _text_atoms([text])) for text in texts)
        drawing = _nested((1036, 0xF002, 0xF003), boxes)
        records.append(_record(1006, _record(1007, bytes(24), version=2) + drawing, version=15))
    offsets = [sum(map(len, records[:number])) for number in range(len(records))]
    directory = sum(map(len, records))
    numbers = b"".join(struct.pack("<I", offset) for offset in offsets)
    records.append(_record(6002, struct.pack("<I", 1 | len(offsets) << 20) + numbers))
    edit = sum(map(len, records))
    records.append(_record(4085, struct.pack("<IHBBIIIHH", 256, 0, 0, 3, 0, directory, 1, len(offsets) + 1, 0)))
    user = _record(4086, struct.pack("<IIIHHBBH", 20, 0xE391C05F, edit, 0, 1012, 3, 0, 0))
    return make_ole({"PowerPoint Document": b"".join(records), "Current User": user})


def _record(kind, body, version=0):
    """A record of PowerPoint; a version of 15 is that of a record of records."""
    return struct.pack("<HHI", version, kind, len(body)) + body


def _nested(kinds, body):
    """Records in one another, the outermost first."""
    for kind in reversed(kinds):
        body = _record(kind, body, version=15)
    return body


def _text_atoms(texts):
    """The texts of a slide, the first of which is its title."""
    return b"".join(
        _record(3999, struct.pack("<I", 0 if number == 0 else 1)) + _record(4000, text.encode("utf-16-le"))
        for number, text in enumerate(texts)
    )
