"""Mails as clients and list servers make them, built by their structures."""

import base64
import quopri
from itertools import count
from typing import NamedTuple

from docsplit_hf.reading.files.failures import ENCRYPTED, UNKNOWN_FORMAT
from docsplit_hf.reading.files.readers.mails import ELSEWHERE, OTHER_VERSION

from .sample_files import make_docx, make_pdf, paragraph

numbers = count()
PICTURE = b"\x89PNG\r\n\x1a\n\x00\x00"
SIGNED = b"\x30\x80\x06\x09*\x86H\x86\xf7\r\x01\x07\x02" + bytes(20)
ENVELOPED = b"\x30\x82\x01\x01\x06\x09*\x86H\x86\xf7\r\x01\x07\x03" + bytes(20)
FILE = "Content-Disposition: attachment; filename="
INLINE = "Content-Disposition: inline; filename="


def leaf(kind, content, *headers):
    """A part of a mail; bytes that are no text are in base64."""
    content = content.encode() if isinstance(content, str) else content
    if b"\x00" in content or content.startswith(b"%PDF"):
        headers = (*headers, "Content-Transfer-Encoding: base64")
        content = base64.encodebytes(content)
    lines = [f"Content-Type: {kind}", *headers, "", ""]
    return "\r\n".join(lines).encode("utf-8") + content


def tree(kind, *parts, before="", after="", end="--"):
    """Parts in one."""
    boundary = f"=_{next(numbers)}"
    content = b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), part) for part in parts)
    begin = f'Content-Type: multipart/{kind}; boundary="{boundary}"\r\n\r\n{before}\r\n'
    return begin.encode() + content + f"--{boundary}{end}\r\n{after}".encode()


def mail(content, *headers):
    """A mail of a part."""
    return "\r\n".join(["From: a@example.org", "MIME-Version: 1.0", *headers, ""]).encode() + content


def attached(name, content, kind="application/octet-stream"):
    return leaf(kind, content, f'{FILE}"{name}"')


def forwarded(content, *headers):
    return leaf("message/rfc822", content, *headers)


def html(*words):
    return leaf("text/html; charset=utf-8", f"<html><body><p>{' '.join(words)}</p></body></html>")


def plain(*words, kind="text/plain; charset=utf-8"):
    return leaf(kind, " ".join(words))


def both(*words):
    return tree("alternative", plain(*words), html(*words))


PDF = attached("offer.pdf", make_pdf(["inpdf"]), "application/pdf")
FOOTER = leaf('text/plain; charset="us-ascii"', "footer\r\n", "Content-Disposition: inline")
STATUS = leaf("message/delivery-status", "Reporting-MTA: dns; reporter\r\n\r\nFinal-Recipient: rfc822; receiver\r\n")
CALENDAR = leaf("text/calendar; method=REQUEST", "BEGIN:VCALENDAR\r\nSUMMARY:meeting\r\nEND:VCALENDAR\r\n")
KEPT = mail(tree("mixed", plain("inner"), PDF), "Subject: forwarded")
FLOWED = "text/plain; charset=utf-8; format=flowed; delsp=yes"


class Mail(NamedTuple):
    """A mail, the words in its text, and what is left out of it."""

    content: bytes
    words: str
    left_out: tuple = ()


MAILS = {
    "Gmail": Mail(mail(both("hello")), "hello"),
    "Outlook": Mail(
        mail(
            tree(
                "mixed",
                tree("related", both("hello"), leaf("image/png; name=i.png", PICTURE, "Content-ID: <i>")),
                attached("a.docx", make_docx(paragraph("inword"))),
            )
        ),
        "hello inword",
        (("attachment: i.png", UNKNOWN_FORMAT),),
    ),
    "Apple Mail": Mail(
        mail(tree("alternative", plain("one two"), tree("mixed", html("one"), PDF, html("two")))), "one two inpdf"
    ),
    "Apple Mail, texts around a file": Mail(
        mail(tree("mixed", plain("one"), leaf("application/pdf", make_pdf(["inpdf"]), f"{INLINE}o.pdf"), plain("two"))),
        "one two inpdf",
    ),
    "Apple Mail, a resource fork": Mail(
        mail(tree("mixed", plain("one"), tree("appledouble", leaf("application/applefile", b"\x00\x05\x16\x07"), PDF))),
        "one inpdf",
        (("attachment: 1.applefile", UNKNOWN_FORMAT),),
    ),
    "Thunderbird": Mail(
        mail(
            tree(
                "mixed",
                leaf(FLOWED, "hel \r\nlo"),
                attached("n.log", "лог".encode("koi8-r"), "text/plain; charset=koi8-r"),
            )
        ),
        "hello лог",
    ),
    "Exchange, TNEF": Mail(
        mail(tree("mixed", plain("hello"), attached("winmail.dat", b"x\x9f>\x22\x00", "application/ms-tnef"))),
        "hello",
        (("attachment: winmail.dat", UNKNOWN_FORMAT),),
    ),
    "Exchange, a mail in base64": Mail(
        mail(tree("mixed", plain("hello"), forwarded(base64.encodebytes(KEPT), "Content-Transfer-Encoding: base64"))),
        "hello forwarded inner inpdf",
    ),
    "Lotus Notes": Mail(mail(tree("mixed", leaf('text/html; name="m.htm"', "<p>hello"), PDF)), "hello inpdf"),
    "Mailman 2, HTML": Mail(mail(tree("mixed", html("hello"), FOOTER)), "hello footer"),
    "Mailman 2, a file": Mail(mail(tree("mixed", tree("mixed", plain("hello"), PDF), FOOTER)), "hello inpdf footer"),
    "Mailman 2, munged": Mail(mail(tree("mixed", both("hello"), FOOTER), "Reply-To: b@example.org"), "hello footer"),
    "Mailman 3, wrapped": Mail(mail(tree("mixed", forwarded(KEPT), FOOTER)), "forwarded inner inpdf footer"),
    "Mailman, a digest": Mail(
        mail(tree("mixed", plain("topics"), tree("digest", b"\r\n" + KEPT, b"\r\n" + mail(both("second"))), FOOTER)),
        "topics forwarded inner inpdf second footer",
    ),
    "Majordomo, behind the last part": Mail(mail(tree("mixed", both("hello"), after="footer")), "hello footer"),
    "a virus scanner": Mail(mail(tree("mixed", tree("alternative", html("hello")), plain("scanned"))), "hello scanned"),
    "S/MIME, signed": Mail(
        mail(tree("signed", tree("mixed", both("hello"), PDF), attached("smime.p7s", SIGNED))),
        "hello inpdf",
        (("attachment: smime.p7s", UNKNOWN_FORMAT),),
    ),
    "S/MIME, signed as a whole": Mail(
        mail(attached("smime.p7m", SIGNED, "application/pkcs7-mime; smime-type=signed-data"), "Subject: hello"),
        "hello",
        (("attachment: smime.p7m", UNKNOWN_FORMAT),),
    ),
    "S/MIME, encrypted": Mail(
        mail(attached("smime.p7m", ENVELOPED, "application/pkcs7-mime"), "Subject: hello"),
        "hello",
        (("attachment: smime.p7m", ENCRYPTED),),
    ),
    "PGP/MIME, signed": Mail(
        mail(tree("signed", tree("mixed", plain("hello"), PDF), attached("s.asc", "-----BEGIN PGP SIGNATURE-----"))),
        "hello inpdf",
        (("attachment: s.asc", UNKNOWN_FORMAT),),
    ),
    "PGP/MIME, encrypted": Mail(
        mail(
            tree("encrypted", leaf("application/pgp-encrypted", "Version: 1"), plain("-----BEGIN PGP")),
            "Subject: hello",
        ),
        "hello",
        (("body", ENCRYPTED),),
    ),
    "PGP, within the text": Mail(
        mail(tree("mixed", plain("hello"), plain("-----BEGIN PGP MESSAGE-----"))), "hello", (("body", ENCRYPTED),)
    ),
    "a delivery that failed": Mail(
        mail(tree("report", plain("failed"), STATUS, forwarded(KEPT))),
        "failed reporter receiver forwarded inner inpdf",
    ),
    "a delivery that failed, headers": Mail(
        mail(tree("report", plain("failed"), STATUS, leaf("text/rfc822-headers", "From: x@y\r\nSubject: sent\r\n"))),
        "failed reporter receiver sent",
    ),
    "a receipt": Mail(
        mail(tree("report", plain("read"), leaf("message/disposition-notification", "Final-Recipient: rfc822; x\r\n"))),
        "read Final-Recipient",
    ),
    "a report of abuse": Mail(
        mail(
            tree("report", plain("spam"), leaf("message/feedback-report", "Feedback-Type: abuse\r\n"), forwarded(KEPT))
        ),
        "spam abuse inner inpdf",
    ),
    "an invitation": Mail(mail(tree("alternative", plain("join"), html("join"), CALENDAR)), "join meeting"),
    "AMP": Mail(
        mail(tree("alternative", plain("hello"), leaf("text/x-amp-html", "<!doctype html><p>hello"), html("hello"))),
        "hello",
    ),
    "a newsletter": Mail(
        mail(tree("alternative", plain("stub"), html("read", "these", "news"))),
        "read these news",
        (("body as text/plain", OTHER_VERSION),),
    ),
    "a file in related": Mail(mail(tree("related", html("hello"), PDF)), "hello inpdf"),
    "a file as another version": Mail(mail(tree("alternative", plain("hello"), PDF)), "hello inpdf"),
    "two files of one name": Mail(
        mail(tree("mixed", plain("hello"), attached("a.txt", "one"), attached("a.txt", "two"))), "hello one two"
    ),
    "a scanner that sends": Mail(mail(leaf("application/pdf", make_pdf(["inpdf"]))), "inpdf"),
    "a mail as the root": Mail(forwarded(KEPT), "forwarded inner inpdf"),
    "a root that is a mail in a mail": Mail(
        mail(forwarded(mail(forwarded(KEPT))), "Subject: outer"), "outer inner inpdf"
    ),
    "a part that is elsewhere": Mail(
        mail(
            tree("mixed", plain("hello"), leaf('message/external-body; name="d.txt"', "Content-Type: text/plain\r\n"))
        ),
        "hello",
        (("attachment: d.txt", ELSEWHERE),),
    ),
    "a mailbox": Mail(
        b"".join(b"From a@b Sat Nov 28 06:00:00 2026\n" + one + b"\n\n" for one in (mail(both("one")), KEPT)),
        "one inner inpdf",
    ),
    "a page that a browser saved": Mail(
        b"MIME-Version: 1.0\r\n" + tree("related", html("hello"), leaf("image/png", PICTURE)),
        "hello",
        (("attachment: 1.png", UNKNOWN_FORMAT),),
    ),
    "an unknown charset": Mail(mail(plain("häuser", kind="text/plain; charset=x-nothing")), "häuser"),
    "a charset that does not hold": Mail(
        mail(leaf("text/plain; charset=us-ascii", "Straße, Häuser".encode())), "Straße"
    ),
    "a charset with a zero byte": Mail(mail(leaf('text/plain; charset="a\x00b"', "hello")), "hello"),
    "a codec that is no charset": Mail(mail(plain("hello", kind="text/plain; charset=rot13")), "hello"),
    "Japanese": Mail(mail(leaf("text/plain; charset=iso-2022-jp", "こんにちは".encode("iso-2022-jp"))), "こんにちは"),
    "Japanese, a file": Mail(
        mail(tree("mixed", attached("a", "こんにちは".encode("iso-2022-jp"), "text/x-log; charset=iso-2022-jp"))),
        "こんにちは",
    ),
    "a page that declares another encoding": Mail(
        mail(attached("a.html", "<meta charset=koi8-r><p>Häuser".encode(), "text/html; charset=utf-8")), "Häuser"
    ),
    "quoted-printable": Mail(
        mail(
            leaf(
                "text/plain; charset=utf-8",
                quopri.encodestring("Häuser".encode()),
                "Content-Transfer-Encoding: quoted-printable",
            )
        ),
        "Häuser",
    ),
    "headers in UTF-8": Mail(mail(plain("hello"), "Subject: Häuser"), "Häuser hello"),
    "encoded names": Mail(
        mail(tree("mixed", plain("hello"), leaf("image/png", PICTURE, f'{FILE}"=?utf-8?q?H=C3=A4user.png?="'))),
        "hello",
        (("attachment: Häuser.png", UNKNOWN_FORMAT),),
    ),
    "names by RFC 2231": Mail(
        mail(
            tree(
                "mixed",
                plain("hello"),
                leaf("image/png", PICTURE, "Content-Disposition: attachment; filename*=utf-8''H%C3%A4user.png"),
            )
        ),
        "hello",
        (("attachment: Häuser.png", UNKNOWN_FORMAT),),
    ),
    "headers that are none": Mail(
        mail(tree("mixed", plain("hello"), PDF), "To: <@", "Date: ;;", "Cc: =?x?q?"), "hello inpdf"
    ),
    "a part without its end": Mail(mail(tree("mixed", plain("hello"), html("second"), end="")), "hello second"),
    "no part at all": Mail(mail(b"Content-Type: multipart/mixed; boundary=x\r\n\r\nhello\r\n"), "hello"),
    "no boundary": Mail(mail(b"Content-Type: multipart/mixed\r\n\r\nhello\r\n"), "hello"),
    "a zero byte": Mail(mail(plain("hello\x00")), "hello"),
}
