"""Read mails as they are sent (EML): all texts in the tree of parts, and the attachments as files."""

from __future__ import annotations

import codecs
import email
import re
from collections.abc import Sequence
from email.message import Message
from email.policy import EmailPolicy
from functools import lru_cache, partial

from ...characters import replace_lone_surrogates
from ..failures import ENCRYPTED
from ..parts import LONGEST_PART_NAME, Budget, Content, Inner, Part
from ..places import PART, LeftOut
from .html_text import text_of_html
from .plain_text import decode_html, decode_text, with_line_ends

BODY = "body"
ATTACHMENT = "attachment"
HEADERS = ("Subject", "From", "To", "Cc", "Date")
MARKUP = ("text/html", "text/enriched", "text/richtext", "text/x-amp-html", "text/watch-html")
MAILS = ("message/rfc822", "message/global", "message/news")
OTHER_VERSION = "another version of a text that is read"
ELSEWHERE = "not in the mail, which says where it is"
UNDECLARED = "no such encoding"
PGP_MESSAGE = "-----BEGIN PGP MESSAGE-----"
_SOFT_LINE_END = re.compile(r"(?<!^--) \n(?!>)", re.MULTILINE)  # of RFC 3676, but for those of quotes
_WORD = re.compile(r"\w+")


def read_eml(content: bytes, budget: Budget) -> Content:
    """Read a mail: a part for its texts, one for each mail in it, and the attachments unread."""
    return _Tree(email.message_from_bytes(content, policy=_POLICY), budget).content


def choose_version(versions: Sequence[str]) -> tuple[int, list[int]]:
    """The version of a text with the most words, the first of equals, and the numbers of those with other words."""
    words = [set(_WORD.findall(text.lower())) for text in versions]
    best = max(range(len(words)), key=lambda number: len(words[number]))
    return best, [number for number, found in enumerate(words) if not found <= words[best]]


class _LenientPolicy(EmailPolicy):
    """The headers as the standard library reads them; one that it fails at is kept as it is."""

    def header_fetch_parse(self, name, value):
        """Decode a header."""
        try:
            return _parsed_header(name, value)
        except Exception:  # its parser of addresses and parameters raises anything
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# Each question about a part of a mail parses its headers again.
_parsed_header = lru_cache(maxsize=64)(EmailPolicy().header_fetch_parse)
_POLICY = _LenientPolicy()


class _Tree:
    """What is in the parts of a mail, and in those of the mails in it."""

    def __init__(self, mail: Message, budget: Budget) -> None:
        self.budget = budget
        self.content = Content()
        self.waiting = [(mail, "")]
        for mail, place in self.waiting:  # which grows
            budget.take_pages(1)
            texts = [text for text in self._texts_of(mail, place) if text.strip()]
            lines = [f"{name}: {mail[name]}" for name in HEADERS if mail[name]]
            self.content.parts.append(Part(kind=PART, name=place + BODY, text="\n".join([*lines, "", *texts])))

    def _texts_of(self, part: Message, place: str) -> list[str]:
        """The texts in a part, in their order; mails and files in it are put aside."""
        if not part.is_multipart():
            return self._text_or_file(part, place)
        children: list[Message] = part.get_payload()
        kind = part.get_content_type()
        if kind in MAILS:
            self._put_mail_aside(part, children[0], place)
            return []
        if kind == "multipart/encrypted":
            self.content.left_out.append(LeftOut(name=place + BODY, reason=ENCRYPTED))
            return []
        if kind == "message/external-body":
            name = part.get_filename() or part.get_param("access-type")
            self.content.left_out.append(LeftOut(name=f"{place}{ATTACHMENT}: {name}", reason=ELSEWHERE))
        versions: list[list[str]] = []
        for child in children:
            # A report of a delivery, or a receipt, is made of headers.
            headers = [f"{name}: {value}" for name, value in child.items()] if kind.startswith("message/") else []
            versions.append([*headers, *self._texts_of(child, place)])
        if kind == "multipart/alternative" and versions:
            best, others = choose_version(["\n".join(texts) for texts in versions])
            for number in others:
                name = f"{place}{BODY} as {children[number].get_content_type()}"
                self.content.left_out.append(LeftOut(name=name, reason=OTHER_VERSION))
            versions = [versions[best]]
        # Some servers of lists write their footers behind the last part.
        footer = self._decoded((part.epilogue or "").encode("utf-8", "surrogateescape"), None, is_markup=False)
        return [*(text for texts in versions for text in texts), footer]

    def _text_or_file(self, part: Message, place: str) -> list[str]:
        """The text of a part that has no others; a file is put aside."""
        self.budget.take_pages(1)
        kind = part.get_content_type()
        is_text = kind == "text/plain" or kind in MARKUP or part.get_content_maintype() in ("multipart", "message")
        if part.get_filename() or part.get_content_disposition() == "attachment" or not is_text:
            ending = "txt" if kind == "text/plain" else part.get_content_subtype()
            name = part.get_filename() or f"{len(self.content.inner) + 1}.{ending}"
            self.content.inner.append(Inner(f"{place}{ATTACHMENT}: {name}", partial(_content_of, part, self.budget)))
            return []
        payload = part.get_payload(decode=True) or b""
        text = self._decoded(payload, part.get_content_charset(), is_markup=kind in MARKUP)
        if text.lstrip().startswith(PGP_MESSAGE):
            self.content.left_out.append(LeftOut(name=place + BODY, reason=ENCRYPTED))
            return []
        if part.get_param("format") == "flowed":
            text = _SOFT_LINE_END.sub("" if part.get_param("delsp") == "yes" else " ", text)
        return [text]

    def _put_mail_aside(self, part: Message, mail: Message, place: str) -> None:
        """Let a mail in a mail wait; one that is encoded as a whole, as some servers do, is a file."""
        title = part.get_filename() or f"{mail['Subject'] or len(self.waiting)}.eml"
        if str(part["Content-Transfer-Encoding"]).strip().lower() == "base64" and not mail.keys():
            mail["Content-Transfer-Encoding"] = "base64"
            read = partial(mail.get_payload, decode=True)
            self.content.inner.append(Inner(f"{place}{ATTACHMENT}: {title.removesuffix('.eml')}.eml", read))
        else:
            self.waiting.append((mail, f"{place}{ATTACHMENT}: {title[:LONGEST_PART_NAME]}, "))

    def _decoded(self, payload: bytes, charset: str | None, is_markup: bool) -> str:
        """The text of a payload, in the encoding that its part declares if it holds."""
        try:
            text = with_line_ends(payload.decode(charset or UNDECLARED))
        except (LookupError, ValueError):
            text = (decode_html if is_markup else decode_text)(payload, self.budget.options)
        text = replace_lone_surrogates(text)
        return text_of_html(text) if is_markup else text


def _content_of(part: Message, budget: Budget) -> bytes:
    """The content of a file in a mail; a text in UTF-8, with its mark, as only the mail says its encoding."""
    content = part.get_payload(decode=True) or b""
    charset = part.get_content_charset()
    if part.get_content_maintype() != "text" or charset is None or budget.options.encoding is not None:
        return content
    try:
        encoded = content.decode(charset).encode()
    except (LookupError, ValueError):
        return content
    return content if encoded == content and content.isascii() else codecs.BOM_UTF8 + encoded
