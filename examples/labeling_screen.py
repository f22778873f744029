"""The screen of labeling by hand: what it shows, for any size of the window, and the keys that it takes."""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from labeling_keys import COMMANDS, LABEL_KEYS, Action, State, found_labels, press

try:
    from prompt_toolkit import Application
    from prompt_toolkit.input.typeahead import clear_typeahead
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys
    from prompt_toolkit.layout import FormattedTextControl, Layout, Window
    from prompt_toolkit.utils import get_cwidth
except ImportError as error:
    raise ImportError("Labeling by hand needs prompt_toolkit: pip install 'docsplit_hf[label]'.") from error

Line = tuple[str, str]  # its style and its text
PLAIN, STRONG, FAINT = "", "bold", "fg:ansibrightblack"
NAMED = {Keys.Enter: "enter", Keys.ControlJ: "enter", Keys.Backspace: "backspace", Keys.Escape: "escape"}
HELP = (
    f"{LABEL_KEYS[:9]} and letters: give the label that stands beside the key.",
    "Enter: accept the present answer.",
    "s: skip; the document is never asked again.",
    "u: take the last label back, and the one before, ...",
    "m: more of the text; after its end, the beginning.",
    "+: give a new label: type its name, then Enter.",
    "/: give any label: type how it begins, then Enter. Escape leaves.",
    "q, Ctrl-D: learn from all labels, save, and end.",
    "Ctrl-C: end at once. Each label is on the disk as soon as its key is pressed.",
)


def label_on_screen(state: State, perform: Callable[[State, Action], State]) -> State:
    """Show one document after the other until none is left or the user quits; gives the last state.

    ``perform`` does what a key asks for, before the state after it is shown; it gives that state, or another one.

    Raises:
        EOFError: If the terminal was closed.
    """
    bindings = KeyBindings()

    @bindings.add(Keys.Any)
    def _(event):
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
        except BaseException as error:  # else the event loop would print it, and go on
            event.app.exit(exception=error)

    def content():
        size = app.output.get_size()
        lines = screen_lines(state, size.columns, size.rows) if state.documents else []
        return [part for style, line in lines for part in ((style, line), ("", "\n"))][:-1]

    window = Window(FormattedTextControl(content, show_cursor=False))
    app = Application(Layout(window), key_bindings=bindings, full_screen=True)
    app.ttimeoutlen = 0.05  # seconds until Escape is a key of its own
    with app.input.raw_mode():
        app.input.read_keys()  # what was typed when no document was to be seen labels none
        clear_typeahead(app.input)
    return app.run()


def screen_lines(state: State, columns: int, rows: int) -> list[Line]:
    """What the screen shows: not more lines than it has rows, none wider than its columns."""
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
    pages = -(-len(lines) // height)
    page = state.page % pages
    of_text = [(PLAIN, line) for line in lines[page * height : (page + 1) * height]]
    of_text += [(PLAIN, "")] * (height - len(of_text))
    ruler = "" if pages == 1 else f" page {page + 1} of {pages}, m: more "
    frame = [(FAINT, "─" * columns), (FAINT, cut(ruler, columns).center(columns, "─"))]
    return [*above, frame[0], *of_text, frame[1], *below][:rows]


def clean(text: str) -> str:
    """Text without what a terminal would obey, or what would show it in another order."""
    return "".join(_clean(character) for character in re.sub(r"\r\n?|[\x85\u2028\u2029]", "\n", text))


@lru_cache(maxsize=64)
def wrap(text: str, columns: int, most: int | None = None) -> list[str]:
    """Lines of at most so many columns, parted between words where that can be; ``most`` of them, the last one cut."""
    lines = []
    for paragraph in clean(text).rstrip().split("\n"):
        lines += _wrap_paragraph(paragraph, columns)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], cut(" ".join(lines[most - 1 :]), columns)]
    return lines


def cut(text: str, columns: int) -> str:
    """As much of a line as there is room for, with an ellipsis where it is not all."""
    text = clean(text).replace("\n", " ")
    if get_cwidth(text) <= columns:
        return text
    return f"{_head(text, columns - 1)}…"


def _below(state: State, columns: int, rows: int) -> list[Line]:
    """The answer and why, the labels and their keys, the commands, and what is typed or said."""
    document = state.documents[0]
    answer = "No answer yet." if document.label is None else f"{document.label} {document.score:.0%}"
    why = f" for: {', '.join(document.words)}" if document.words else ""
    keys = [f"{key} {label}" for key, label in zip(LABEL_KEYS, state.labels, strict=False)]
    if len(state.labels) > len(keys):
        keys.append(f"/ {len(state.labels) - len(keys)} more")
    if state.typed is not None and state.typed[0] == "/":
        keys = found_labels(state) or ["No label begins so."]
    small = rows < 24 or columns < 60  # the text is to have half of the screen
    commands = ["Enter accept", *(f"{key} {meaning}" for key, meaning in COMMANDS.items() if not small or key in "su?")]
    lines = [(STRONG, line) for line in wrap(f"{answer}{why}", columns, most=1 if small else 2)]
    lines += [(FAINT, line) for line in wrap(document.reason, columns, most=1 if small else 2)]
    lines += [(PLAIN, line) for line in _in_lines(keys, columns, most=max(rows // 5, 1))]
    lines += [(FAINT, line) for line in _in_lines(commands, columns, most=1 if small else 3)]
    if state.typed is None:
        return [*lines, (STRONG, cut(state.message, columns))]
    said = {"+": "New label: ", "/": "Label: "}[state.typed[0]]
    return [*lines, (STRONG, cut(f"{said}{state.typed[1:]}█ {state.message}", columns))]


def _keys(pressed, state: State) -> list[str]:
    """The keys of ``press`` that a key of the terminal is: none, or several of a text that was pasted."""
    if pressed.key == Keys.ControlD:
        return ["q"] if state.typed is None and not state.help else ["escape", "q"]
    if pressed.key == Keys.BracketedPaste:
        return list(pressed.data) if state.typed is not None else []
    if pressed.key in NAMED:
        return [NAMED[pressed.key]]
    return [pressed.key] if len(pressed.key) == 1 else []


def _clean(character: str) -> str:
    category = unicodedata.category(character)
    if character == "\n" or category[0] != "C":
        return character
    if character == "\t":
        return "    "
    if category == "Cc":  # as the picture of it, such as ␛
        return chr(0x2400 + ord(character)) if ord(character) < 32 else "�"
    return "" if category == "Cf" else "�"


def _wrap_paragraph(paragraph: str, columns: int) -> list[str]:
    lines, line, width = [], "", 0
    for word in re.findall(r"\s*\S+", paragraph):
        if line and width + get_cwidth(word) > columns:
            lines.append(line)
            line, width, word = "", 0, word.lstrip()
        while width + get_cwidth(word) > columns:
            head = _head(word, columns) or word[0]
            lines.append(head)
            word = word[len(head) :]
        line, width = line + word, width + get_cwidth(word)
    return [*lines, line]


def _head(text: str, columns: int) -> str:
    """As many characters of a text as there is room for."""
    width = 0
    for place, character in enumerate(text):
        width += get_cwidth(character)
        if width > columns:
            return text[:place]
    return text


def _in_lines(items: list[str], columns: int, most: int) -> list[str]:
    """Items beside one another, none parted, as many as there is room for."""
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
