"""Read mails (EML, and MSG of Outlook): the body, and the attachments as parts."""

from __future__ import annotations

import email
import email.policy
import io
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from typing import NamedTuple

from .failures import DAMAGED, EMPTY, Refusal
from .html_text import text_of_html
from .parts import Budget, Content, Part
from .places import PART
from .plain_text import decode_html, decode_text, with_line_ends

BODY = "body"
ATTACHMENT = "attachment"
HEADERS = ("Subject", "From", "To", "Cc", "Date")
# Names of the streams in an MSG file, by the properties of MAPI.
SUBJECT = "0037"
SENDER = "0C1A"
SENDER_ADDRESS = "5D01"
RECEIVERS = "0E04"
PLAIN_BODY = "1000"
HTML_BODY = "1013"
FILE_NAME = "3707"
SHORT_FILE_NAME = "3704"
DATA = "3701"
UNICODE = "001F"
CODE_PAGE = "001E"
BINARY = "0102"
MAIL = "000D"  # a folder

ReadInner = Callable[[bytes, str, Budget], Content]


class Inner(NamedTuple):
    """A file in another one."""

    name: str
    content: bytes


class Mails(NamedTuple):
    """A mail and those attached to it as parts, and all other attachments unread."""

    parts: list[Part]
    attached: list[Inner]


def read_eml(content: bytes, budget: Budget) -> Mails:
    """Read a mail as it is sent: its body, and its attachments unread."""
    try:
        message = email.message_from_bytes(content, policy=email.policy.default)
        lines = [f"{name}: {message[name]}" for name in HEADERS if message[name]]
        body = message.get_body(preferencelist=("plain", "html"))
        if body is not None:
            lines.extend(["", _text_of(body, budget)])
        attached = [_attached(part, number) for number, part in enumerate(message.iter_attachments(), start=1)]
    except (RecursionError, AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
        raise Refusal(DAMAGED, f"mail: {error!r}"[:200]) from error
    return Mails(parts=[Part(kind=PART, name=BODY, text="\n".join(lines))], attached=attached)


def read_msg(content: bytes, budget: Budget) -> Mails:
    """Read a mail as Outlook saves it: its body, the mails attached to it, and all other attachments unread."""
    import olefile

    mails: list[Part] = []
    attached: list[Inner] = []
    with olefile.OleFileIO(io.BytesIO(content)) as file:
        streams = file.listdir(streams=True, storages=True)
        waiting = [((), BODY)]
        while waiting:
            folders, name = waiting.pop(0)
            budget.take_pages(1)
            mails.append(Part(kind=PART, name=name, text=_text_of_msg(file, folders, budget)))
            depth = len(folders)
            inside = {path[depth] for path in streams if len(path) > depth and tuple(path[:depth]) == folders}
            for attachment in sorted(one for one in inside if one.startswith("__attach")):
                place = (*folders, attachment)
                name = _string(file, place, FILE_NAME, budget) or _string(file, place, SHORT_FILE_NAME, budget)
                data = _stream(file, place, DATA + BINARY)
                mail = (*place, f"__substg1.0_{DATA}{MAIL}")
                if data is not None:
                    attached.append(Inner(name=name or attachment, content=data))
                elif file.exists([*mail, "__properties_version1.0"]):
                    title = name or _string(file, mail, SUBJECT, budget) or attachment
                    waiting.append((mail, f"{ATTACHMENT}: {title}"))
    if not attached and not any(mail.text for mail in mails):
        raise Refusal(EMPTY, "no subject, no body")
    return Mails(parts=mails, attached=attached)


def _text_of_msg(file, folders: Sequence[str], budget: Budget) -> str:
    """The headers and the body of a mail in an MSG file."""
    names = (("Subject", SUBJECT), ("From", SENDER), ("From", SENDER_ADDRESS), ("To", RECEIVERS))
    lines = [f"{name}: {text}" for name, tag in names if (text := _string(file, folders, tag, budget))]
    text = _string(file, folders, PLAIN_BODY, budget)
    html = _stream(file, folders, HTML_BODY + BINARY)
    if not text and html is not None:
        text = text_of_html(decode_html(html, budget.options)[0])
    return "\n".join([*lines, "", text] if text else lines)


def _text_of(body: EmailMessage, budget: Budget) -> str:
    """The text of a body in plain text or HTML."""
    payload = body.get_payload(decode=True) or b""
    charset = body.get_content_charset()
    try:
        text = payload.decode(charset or "utf-8")
    except (LookupError, UnicodeError):
        text = decode_text(payload, budget.options)[0]
    return text_of_html(text) if body.get_content_subtype() == "html" else with_line_ends(text)


def _attached(part: EmailMessage, number: int) -> Inner:
    """An attachment; a mail in a mail as its bytes."""
    if part.get_content_type() == "message/rfc822":
        inner = part.get_payload(0)
        return Inner(name=part.get_filename() or f"{inner['Subject'] or number}.eml", content=inner.as_bytes())
    name = part.get_filename() or f"{number}.{part.get_content_subtype()}"
    return Inner(name=name, content=part.get_payload(decode=True) or b"")


def _string(file, folders: Sequence[str], tag: str, budget: Budget) -> str:
    """The text of a property, empty if there is none."""
    wide = _stream(file, folders, tag + UNICODE)
    if wide is not None:
        return with_line_ends(wide.decode("utf-16-le", errors="replace").rstrip("\x00"))
    narrow = _stream(file, folders, tag + CODE_PAGE)
    return "" if narrow is None else decode_text(narrow, budget.options)[0].rstrip("\x00")


def _stream(file, folders: Sequence[str], tag: str) -> bytes | None:
    """The bytes of a property; None if there is none."""
    path = [*folders, f"__substg1.0_{tag}"]
    return file.openstream(path).read() if file.exists(path) else None
