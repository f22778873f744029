"""Read mails as Outlook saves them (MSG), in Microsoft's old container (OLE)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial

from ..failures import DAMAGED, Refusal
from ..parts import Budget, Content, Inner, Part
from ..places import PART, LeftOut
from .html_text import text_of_html
from .mails import ATTACHMENT, BODY, OTHER_VERSION, choose_version
from .plain_text import decode_html, decode_text, with_line_ends

# Names of the streams in an MSG file, by the properties of MAPI.
SUBJECT = "0037"
HEADERS = (("Subject", SUBJECT), ("From", "0C1A"), ("From", "5D01"), ("To", "0E04"), ("Cc", "0E03"))
PLAIN_BODY = "1000"
HTML_BODY = "1013"
RICH_BODY = "1009"
FILE_NAME = "3707"
SHORT_FILE_NAME = "3704"
DATA = "3701"
UNICODE = "001F"
CODE_PAGE = "001E"
BINARY = "0102"
FOLDER = "000D"  # of a mail, or of an object of another program
PACKED_RICH_TEXT = "rich text that is packed"
NO_CONTENT = "a link, or an object of another program"


def open_ole(content: bytes):
    """Open a file of Microsoft's old container."""
    import olefile

    try:
        return olefile.OleFileIO(io.BytesIO(content))
    except Exception as error:  # it raises anything on a damaged file
        raise Refusal(DAMAGED, f"Microsoft's old container: {error}") from error


def read_msg(content: bytes, budget: Budget) -> Content:
    """Read a mail: its body, the mails attached to it, and all other attachments unread."""
    return _Tree(content, budget).content


class _Tree:
    """What is in a mail, and in those attached to it."""

    def __init__(self, content: bytes, budget: Budget) -> None:
        self.file = open_ole(content)
        self.budget = budget
        self.content = Content()
        streams = self.file.listdir(streams=True, storages=True)
        waiting: list[tuple[tuple[str, ...], str]] = [((), BODY)]
        for folders, name in waiting:  # which grows
            budget.take_pages(1)
            self.content.parts.append(Part(kind=PART, name=name, text=self._text_of_mail(folders, name)))
            depth = len(folders)
            inside = {path[depth] for path in streams if len(path) > depth and tuple(path[:depth]) == folders}
            for attachment in sorted(one for one in inside if one.startswith("__attach")):
                self._add_attachment((*folders, attachment), waiting)

    def _add_attachment(self, place: tuple[str, ...], waiting: list[tuple[tuple[str, ...], str]]) -> None:
        """Let a mail in a mail wait, and put a file aside; what is neither is left out."""
        mail = (*place, f"__substg1.0_{DATA}{FOLDER}")
        is_mail = self.file.exists([*mail, "__properties_version1.0"])
        title = self._string(place, FILE_NAME) or self._string(place, SHORT_FILE_NAME)
        name = f"{ATTACHMENT}: {title or (is_mail and self._string(mail, SUBJECT)) or place[-1]}"
        if self._has(place, DATA + BINARY):
            self.content.inner.append(Inner(name=name, read=partial(self._stream, place, DATA + BINARY)))
        elif is_mail:
            waiting.append((mail, name))
        else:
            self.content.left_out.append(LeftOut(name=name, reason=NO_CONTENT))

    def _text_of_mail(self, folders: Sequence[str], name: str) -> str:
        """The headers and the body of a mail."""
        lines = [f"{header}: {text}" for header, tag in HEADERS if (text := self._string(folders, tag))]
        html = self._string(folders, HTML_BODY)
        if self._has(folders, HTML_BODY + BINARY):
            html = decode_html(self._stream(folders, HTML_BODY + BINARY), self.budget.options)
        versions = {"plain text": self._string(folders, PLAIN_BODY), "HTML": text_of_html(html)}
        best, others = choose_version(list(versions.values()))
        kinds = list(versions)
        self.content.left_out += [LeftOut(name=f"{name} as {kinds[number]}", reason=OTHER_VERSION) for number in others]
        text = versions[kinds[best]]
        if not text and self._has(folders, RICH_BODY + BINARY):
            self.content.left_out.append(LeftOut(name=name, reason=PACKED_RICH_TEXT))
        return "\n".join([*lines, "", text] if text else lines)

    def _string(self, folders: Sequence[str], tag: str) -> str:
        """The text of a property, empty if there is none."""
        if self._has(folders, tag + UNICODE):
            text = self._stream(folders, tag + UNICODE).decode("utf-16-le", errors="replace")
        elif self._has(folders, tag + CODE_PAGE):
            text = decode_text(self._stream(folders, tag + CODE_PAGE), self.budget.options)
        else:
            return ""
        return with_line_ends(text.rstrip("\x00"))

    def _has(self, folders: Sequence[str], tag: str) -> bool:
        """Whether there is a property."""
        return self.file.exists([*folders, f"__substg1.0_{tag}"])

    def _stream(self, folders: Sequence[str], tag: str) -> bytes:
        """The bytes of a property."""
        content = self.file.openstream([*folders, f"__substg1.0_{tag}"]).read()
        self.budget.take_bytes(len(content))  # several names may share their bytes
        return content
