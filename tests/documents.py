"""Write small documents for tests: PDF with a text on each page, and Word."""

import textwrap
import zipfile

LINE_LETTERS = 90


def pdf(pages):
    """Make a PDF file of texts in Latin letters, a page for each; a page of None has a picture and no text."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    picture = b"<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>"
    objects.append(picture + b"stream\n\x80\nendstream")
    kids = []
    for text in pages:
        if text is None:
            content = b"q 400 0 0 400 50 50 cm /P Do Q"
        else:
            lines = [line for part in text.split("\n") for line in textwrap.wrap(part, LINE_LETTERS) or [""]]
            shown = [line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for line in lines]
            content = ("BT /F 9 Tf 40 800 Td 11 TL " + " ".join(f"({line}) Tj T*" for line in shown) + " ET").encode(
                "cp1252"
            )
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(content), content))
        resources = b"/Resources<</Font<</F 3 0 R>>/XObject<</P 4 0 R>>>>"
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]%b/Contents %d 0 R>>" % (resources, len(objects))
        objects.append(page)
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(kids), b" ".join(kids))
    content = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = len(content)
    content += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    content += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return content + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)


def write_pdf(path, pages):
    """Write a PDF file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pdf(pages))
    return path


def write_docx(path, paragraphs):
    """Write the smallest Word file with these paragraphs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    types = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    types += '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    types += f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>'
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    relations = (
        '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    )
    relations += f'<Relationship Id="r1" Type="{kind}" Target="word/document.xml"/></Relationships>'
    document = f'<?xml version="1.0"?><w:document {space}><w:body>{body}</w:body></w:document>'
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", types)
        file.writestr("_rels/.rels", relations)
        file.writestr("word/document.xml", document)
    return path


def write_damaged(path):
    """Write the beginning of a PDF file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"%PDF-1.4\n1 0 obj\n<</Type/Cat")
    return path
