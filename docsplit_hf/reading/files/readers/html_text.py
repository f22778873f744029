"""Text of HTML."""

from __future__ import annotations

import re

# Where a line, or the cell of a table, ends; no text of a page has these characters.
MARK = "\x1e"
CELL_END = "\x1f"
DROPPED = ["script", "style", "template", "noscript", "iframe", "object", "svg", "head"]
BLOCKS = (
    "address, article, aside, blockquote, br, caption, dd, details, div, dl, dt, fieldset, figcaption, figure, footer, "
    "form, h1, h2, h3, h4, h5, h6, header, hr, legend, li, main, nav, ol, option, p, pre, section, summary, table, tr, "
    "ul"
)
_SPACE = re.compile(rf"[ \t\n\r\f\xa0{CELL_END}]+")
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
        node.insert_after(CELL_END)
    for node in tree.body.css(BLOCKS):
        node.insert_before(MARK)
        node.insert_after(MARK)
    text = _SPACE.sub(" ", tree.body.text())
    text = _MARKS.sub("\n", text).strip()
    return text if not title or text.startswith(title) else f"{title}\n{text}"
