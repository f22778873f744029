"""Text of HTML."""

from __future__ import annotations

import re

MARK = "\x1e"  # where a line ends; no text of a page has this character
DROPPED = ["script", "style", "template", "noscript", "iframe", "object", "svg", "head"]
BLOCKS = (
    "address, article, aside, blockquote, br, caption, dd, details, div, dl, dt, fieldset, figcaption, figure, footer, "
    "form, h1, h2, h3, h4, h5, h6, header, hr, legend, li, main, nav, ol, option, p, pre, section, summary, table, tr, "
    "ul"
)
_SPACE = re.compile(r"[ \t\n\r\f\xa0]+")
_MARKS = re.compile(rf" ?{MARK}[ {MARK}]*")


def text_of_html(content: str | bytes) -> str:
    """The visible text of a page with a line for each block, the title first; nothing is fetched or executed."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(content)
    found = tree.css_first("title")
    title = " ".join(found.text().split()) if found is not None else ""
    tree.strip_tags(DROPPED)
    if tree.body is None:
        return title
    for node in tree.body.css("pre"):
        node.replace_with(MARK + node.text().replace("\n", MARK) + MARK)
    for node in tree.body.css("td, th"):
        node.insert_after(" ")
    for node in tree.body.css(BLOCKS):
        node.insert_before(MARK)
        node.insert_after(MARK)
    for node in tree.body.css("li, dd, dt, td, th"):
        node.insert_before(" ")
    text = _SPACE.sub(" ", tree.body.text())
    text = _MARKS.sub("\n", text).strip()
    return text if not title or text.startswith(title) else f"{title}\n{text}"
