"""Small files of each format, made by hand."""

import io
import zipfile
from email.message import EmailMessage

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATIONS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def make_zip(members, compression=zipfile.ZIP_DEFLATED):
    """A zip file of members by name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
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
    content = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    trailer = b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF" % (count, extra, len(content))
    return content + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (count, table, trailer)


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


def make_pptx(slides, order=None):
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
        "ppt/presentation.xml": f"<p:presentation {names}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": f"<Relationships {RELATIONS}>{relations}</Relationships>",
    }
    for number, text in enumerate(slides):
        members[f"ppt/slides/slide{number}.xml"] = (
            f'<p:sld xmlns:p="urn:p" xmlns:a="urn:a"><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>'
        )
    return make_zip(members)


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
    names = 'xmlns:office="urn:o" xmlns:text="urn:t" xmlns:draw="urn:d"'
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
