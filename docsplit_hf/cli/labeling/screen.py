"""Terminal screen for labeling by hand, drawn by prompt_toolkit."""

import math
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from ...extras import check_extra
from .state import COMMANDS, LABEL_KEYS, Action, State, found_labels, press

check_extra("label", "Labeling by hand")

from prompt_toolkit import Application  # noqa: E402
from prompt_toolkit.input.typeahead import clear_typeahead  # noqa: E402
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent  # noqa: E402
from prompt_toolkit.keys import Keys  # noqa: E402
from prompt_toolkit.layout import FormattedTextControl, Layout, Window  # noqa: E402
from prompt_toolkit.utils import get_cwidth  # noqa: E402

Line = tuple[str, str]  # style and text
SMALL_ROWS = 24  # smaller screens show fewer lines below the text
SMALL_COLUMNS = 60
PLAIN = ""
STRONG = "bold"
FAINT = "fg:ansibrightblack"
NAMED_KEYS = {Keys.Enter: "enter", Keys.ControlJ: "enter", Keys.Backspace: "backspace", Keys.Escape: "escape"}
HELP = (
    f"{LABEL_KEYS[:9]} and letters: give the label beside the key.",
    "Enter: accept the current answer.",
    "s: skip; the document is not shown again.",
    "u: undo the last label; repeat to undo more.",
    "m: more of the text; after the end, back to the beginning.",
    "+: give a new label: type its name, then Enter.",
    "/: give any label: type its beginning, then Enter. Escape cancels.",
    "q, Ctrl-D: learn from all labels, save, and quit.",
    "Ctrl-C: quit at once. Each label is saved as soon as its key is pressed.",
)


def label_on_screen(state: State, perform: Callable[[State, Action], State]) -> State:
    """Show the documents in turn until none is left or the user quits.

    Args:
        state: The documents and labels to begin with.
        perform: Performs the action of a key, and returns the state to show next.

    Returns:
        The last state.

    Raises:
        EOFError: If the terminal was closed.
    """
    bindings = KeyBindings()

    @bindings.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        nonlocal state
        pressed = event.key_sequence[0]
        try:
            if pressed.key in (Keys.ControlC, Keys.SIGINT):
                raise KeyboardInterrupt
            for key in _keys(pressed, state):
                state, action = press(state, key)
                if action is not None:
                    state = perform(state, action)
                    if action.kind == "quit" or not state.documents:
                        event.app.exit(result=state)
        except BaseException as error:  # the event loop would print it and continue
            event.app.exit(exception=error)

    def content() -> list[Line]:
        size = app.output.get_size()
        lines = screen_lines(state, size.columns, size.rows) if state.documents else []
        return [part for style, line in lines for part in ((style, line), ("", "\n"))][:-1]

    window = Window(FormattedTextControl(content, show_cursor=False))
    app = Application(Layout(window), key_bindings=bindings, full_screen=True)
    app.ttimeoutlen = 0.05  # seconds until Escape counts as a single key
    with app.input.raw_mode():
        app.input.read_keys()  # keys pressed before a document was shown must not label it
        clear_typeahead(app.input)
    return app.run()


def screen_lines(state: State, columns: int, rows: int) -> list[Line]:
    """Return the lines of the screen, at most ``rows``, none wider than ``columns``."""
    if state.help:
        lines = [(PLAIN, line) for text in HELP for line in wrap(text, columns)]
        return [*lines[: rows - 1], (STRONG, cut("Any key goes back.", columns))]
    document = state.documents[0]
    text = document.text if document.text_pair is None else f"{document.text}\n\n{document.text_pair}"
    lines = wrap(text, columns)
    above = [(STRONG, cut(f"Document {state.done + 1}, {state.left - 1:,} after it. {document.id}", columns))]
    above += [(FAINT, line) for line in wrap(state.learned, columns, most=3)] if state.learned else []
    below = _below(state, columns, rows)
    height = max(rows - len(above) - len(below) - 2, 1)
    pages = math.ceil(len(lines) / height)
    page = state.page % pages
    text_lines = [(PLAIN, line) for line in lines[page * height : (page + 1) * height]]
    text_lines += [(PLAIN, "")] * (height - len(text_lines))
    ruler = "" if pages == 1 else f" page {page + 1} of {pages}, m: more "
    upper_rule = (FAINT, "─" * columns)
    lower_rule = (FAINT, cut(ruler, columns).center(columns, "─"))
    return [*above, upper_rule, *text_lines, lower_rule, *below][:rows]


def clean(text: str) -> str:
    """Remove control characters, which a terminal would interpret, and changes of writing direction."""
    text = re.sub(r"\r\n?|[\x85\u2028\u2029]", "\n", text).replace("\t", "    ")
    return "".join(_clean_character(character) for character in text)


def _clean_character(character: str) -> str:
    category = unicodedata.category(character)
    if character == "\n" or category[0] != "C":
        return character
    return "" if category == "Cf" else "�"  # Cf: format characters, such as the joiners of emoji


@lru_cache(maxsize=64)
def wrap(text: str, columns: int, most: int | None = None) -> list[str]:
    """Wrap text between words where possible, into at most ``most`` lines, the last one cut."""
    lines = []
    for paragraph in clean(text).rstrip().split("\n"):
        lines += _wrap_paragraph(paragraph, columns)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], cut(" ".join(lines[most - 1 :]), columns)]
    return lines


def cut(text: str, columns: int) -> str:
    """Cut a line to the width, with an ellipsis if anything is missing."""
    text = clean(text).replace("\n", " ")
    if get_cwidth(text) <= columns:
        return text
    return f"{_head(text, columns - 1)}…"


def _below(state: State, columns: int, rows: int) -> list[Line]:
    """Return the lines below the text: answer, reasons, labels with keys, commands, and input or message."""
    document = state.documents[0]
    answer = "No answer yet." if document.label is None else f"{document.label} {document.score:.0%}"
    why = f" for: {', '.join(document.words)}" if document.words else ""
    keys = [f"{key} {label}" for key, label in zip(LABEL_KEYS, state.labels, strict=False)]
    if len(state.labels) > len(keys):
        keys.append(f"/ {len(state.labels) - len(keys)} more")
    if state.typed is not None and state.typed[0] == "/":
        keys = found_labels(state) or ["No label begins with this."]
    small = rows < SMALL_ROWS or columns < SMALL_COLUMNS
    commands = ["Enter accept", *(f"{key} {meaning}" for key, meaning in COMMANDS.items() if not small or key in "su?")]
    lines = [(STRONG, line) for line in wrap(f"{answer}{why}", columns, most=1 if small else 2)]
    lines += [(FAINT, line) for line in wrap(document.reason, columns, most=1 if small else 2)]
    lines += [(PLAIN, line) for line in _in_lines(keys, columns, most=max(rows // 5, 1))]
    lines += [(FAINT, line) for line in _in_lines(commands, columns, most=1 if small else 3)]
    if state.typed is None:
        return [*lines, (STRONG, cut(state.message, columns))]
    prompt = {"+": "New label: ", "/": "Label: "}[state.typed[0]]
    return [*lines, (STRONG, cut(f"{prompt}{state.typed[1:]}█ {state.message}", columns))]


def _keys(pressed: KeyPress, state: State) -> list[str]:
    """Convert a key of the terminal to keys of ``press``: none, one, or several for a pasted text."""
    if pressed.key == Keys.ControlD:
        return ["q"] if state.typed is None and not state.help else ["escape", "q"]
    if pressed.key == Keys.BracketedPaste:
        return list(pressed.data) if state.typed is not None else []
    if pressed.key in NAMED_KEYS:
        return [NAMED_KEYS[pressed.key]]
    return [pressed.key] if len(pressed.key) == 1 else []


def _wrap_paragraph(paragraph: str, columns: int) -> list[str]:
    lines: list[str] = []
    line = ""
    width = 0
    for word in re.findall(r"\s*\S+", paragraph):
        if line and width + get_cwidth(word) > columns:
            lines.append(line)
            line = ""
            width = 0
            word = word.lstrip()
        while width + get_cwidth(word) > columns:
            head = _head(word, columns) or word[0]
            lines.append(head)
            word = word[len(head) :]
        line += word
        width += get_cwidth(word)
    return [*lines, line]


def _head(text: str, columns: int) -> str:
    """Return the longest beginning of a text that fits."""
    width = 0
    for place, character in enumerate(text):
        width += get_cwidth(character)
        if width > columns:
            return text[:place]
    return text


def _in_lines(items: list[str], columns: int, most: int) -> list[str]:
    """Arrange items in lines without breaking them, as many as fit."""
    lines: list[str] = []
    for item in (cut(item, columns) for item in items):
        if lines and get_cwidth(lines[-1]) + 2 + get_cwidth(item) <= columns:
            lines[-1] += f"  {item}"
        elif len(lines) < most:
            lines.append(item)
        else:
            lines[-1] = cut(f"{lines[-1]} …", columns)
            break
    return lines
