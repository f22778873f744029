"""The layout of the page, and which event each click calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import gradio as gr

from .changes import give_label, remove_text
from .events import BUTTONS, NOTHING_YET, Events, spoken
from .sessions import Limits, SharedModel
from .uploads import ENCODINGS, ENDINGS
from .views import HEADER, NEIGHBORS, PASSAGE, WORD

FONT, MONOSPACE = ["system-ui", "sans-serif"], ["ui-monospace", "monospace"]  # of the visitor: none is fetched
THEME = gr.themes.Default(primary_hue="blue", neutral_hue="slate", font=FONT, font_mono=MONOSPACE)
COLORS = {WORD: "#f59e0b", PASSAGE: "#60a5fa"}
LEAD = (
    "Add a few texts with their labels. Then any other text gets an answer, with the examples, words and passages "
    "behind it."
)
MEASURED = "How often answers are right: measured on labeled texts that were held back"
SHARES = "The most similar texts, each with its share of the vote. One without a label votes with its likely label."
ONE_AT_A_TIME = {"concurrency_id": "pipeline", "concurrency_limit": 2, "api_visibility": "private"}
# Nothing of a visitor is put into this: map.js draws the points, and writes the names of labels as text.
MAP = """<canvas class="points" tabindex="0" role="application"
aria-label="Map of the texts. Arrow keys go from point to point, Enter opens the text."></canvas>
<ul aria-label="Labels"></ul>
<p>Click a point to open its text. By keyboard: arrows go from point to point, Enter opens.
<span role="status"></span></p>"""
TABLE = {"datatype": "str", "type": "array", "interactive": False, "visible": False, "wrap": True, "buttons": [],
         "show_search": "none"}  # fmt: skip


def make_page(shared: SharedModel, limits: Limits) -> gr.Blocks:
    """The page of one server. ``launch_options`` go with it."""
    events = Events(shared, limits)
    with gr.Blocks(title="docsplit_hf", analytics_enabled=False, delete_cache=(3600, 24 * 3600)) as page:
        # The key keeps others out, as nobody can guess it; this encryption of it, in the browser, does not.
        key = gr.BrowserState(storage_key="docsplit_hf", secret="docsplit_hf")
        gr.Markdown("# Classify documents from a few examples")
        gr.Markdown(LEAD, elem_classes="lead")
        with gr.Row(elem_classes="head"):
            status = gr.Markdown(NOTHING_YET, elem_id="status")
            example = gr.Button("Try it with example texts", variant="primary", visible=False, elem_id="example")
            undo, clear = gr.Button("Undo", visible=False), gr.Button("Clear", visible=False)
        with gr.Row(visible=False, elem_classes="head") as confirm:
            gr.Markdown("Remove all texts from this page?")
            sure, keep = gr.Button("Yes, remove all", variant="stop"), gr.Button("No, keep them")
        measured = gr.Dataframe(label=MEASURED, elem_id="measured", render=False, **TABLE)
        head = [status, example, undo, clear, confirm, measured]
        with gr.Tabs(selected="texts") as tabs:
            with gr.Tab("Texts", id="texts"):
                _texts_tab(events, key, head, limits)
                measured.render()
            with gr.Tab("Answer", id="answer"):
                text, answered, shown = _answer_tab(events, key, head, limits)
            with gr.Tab("Label next", id="suggest"):
                opened = [answered, _suggest_tab(events, key, head)]
            with gr.Tab("Check labels", id="audit"):
                opened.append(_audit_tab(events, key, head))
            with gr.Tab("Map", id="map") as tab:
                opened.append(_map_tab(tab, events, key, head))
            with gr.Tab("Classify a file", id="file"):
                _file_tab(events, key)
            with gr.Tab("Save", id="save"):
                load, saved = _save_tab(events, key)
        _on(page.load, events.opened, key, [key, *head], hidden=True)
        _on(example.click, events.add_examples, key, [*head, text, *shown, tabs], over=status)
        for trigger, event, given in (
            (undo.click, events.undo, [key]),
            (sure.click, events.clear, [key]),
            (load.click, events.open, [key, saved]),
        ):
            _on(trigger, event, given, [*head, *opened], over=status)
        for button, asking in ((clear, True), (keep, False)):
            _on(button.click, partial(gr.Row, visible=asking), None, confirm, hidden=True)
    return page


def launch_options(limits: Limits) -> dict[str, Any]:
    """Arguments of ``launch``: it serves no file of the server, loads nothing from elsewhere, and has no API."""
    return {
        "theme": THEME,
        "css": _file("page.css"),
        "max_file_size": limits.megabytes * 10**6,
        "allowed_paths": [],
        "footer_links": [],
        "share": False,
        "ssr_mode": False,
        "mcp_server": False,
        "enable_monitoring": False,
    }


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _texts_tab(events: Events, key: gr.BrowserState, head: list, limits: Limits) -> None:
    with gr.Row():
        with gr.Column():
            upload = _upload(events, "A file of texts, with labels or without", True)
            gr.Markdown(
                f"{', '.join(ENDINGS)}; at most {limits.rows:,} rows and {limits.megabytes} MB. Texts without a label "
                "help, too.",
                elem_classes="lead",
            )
            add_file = gr.Button("Add the file")
        with gr.Column():
            labeled = gr.Textbox(
                label="Texts with labels, one a line", placeholder="sport: The home team won.", lines=5, max_lines=12
            )
            unlabeled = gr.Textbox(label="Texts without labels, one a line", lines=3, max_lines=12)
            add_pasted = gr.Button("Add these lines")
    _on(add_file.click, events.add_file, [key, *upload], [*head, upload[0]], over=upload[0])
    pasted = [labeled, unlabeled]
    _on(add_pasted.click, events.add_pasted, [key, *pasted], [*head, *pasted], over=labeled)


def _answer_tab(events: Events, key: gr.BrowserState, head: list, limits: Limits) -> tuple:
    text = gr.Textbox(label="Text", lines=4, max_lines=12, max_length=limits.characters, elem_id="asked")
    ask = gr.Button("Classify", variant="primary")
    with gr.Row(visible=False) as answered:
        with gr.Column(scale=2):
            label = gr.Label(label="Answer", elem_id="answer")
            chooser = _chooser("Not right? Click the right label: the next answer knows.")
            shares = gr.BarPlot(x="expert", y="log odds", sort=None, tooltip="none", height=290, buttons=[],
                                label="What each expert adds")  # fmt: skip
        with gr.Column(scale=3):
            pieces = _highlighted("What decided in the text", True)
            gr.Markdown(SHARES, elem_classes="lead")
            neighbors = [_highlighted("", False) for _ in range(NEIGHBORS)]
    shown = [answered, label, pieces, shares, *neighbors, *chooser[:-1]]
    for trigger in (ask.click, text.submit):
        _on(trigger, events.ask, [key, text], shown, over=text)
    _on_label(chooser, events, key, head, text, events.ask, [text], shown)
    return text, answered, shown


def _suggest_tab(events: Events, key: gr.BrowserState, head: list) -> gr.Column:
    gr.Markdown("The texts whose labels would help most.", elem_classes="lead")
    ask = gr.Button("Suggest a text", variant="primary")
    opened, text, chooser, remove = _opened_text("Its label:")
    with opened:
        skip = gr.Button("Skip this text", size="sm")
    shown = [opened, text, *chooser[:-1]]
    _on(ask.click, events.suggest, key, shown)
    _on(skip.click, events.skip, key, shown)
    _on_label(chooser, events, key, head, text, events.suggest, [], shown, remove)
    return opened


def _audit_tab(events: Events, key: gr.BrowserState, head: list) -> gr.Column:
    gr.Markdown("Labels that may be wrong, copies, and texts that are like no other.", elem_classes="lead")
    ask = gr.Button("Check the labels", variant="primary")
    said = gr.Markdown()
    widths = ["130px", "120px", "120px", "240px", "380px"]
    table = gr.Dataframe(headers=HEADER, elem_id="findings", column_widths=widths, **TABLE)
    opened, text, chooser, remove = _opened_text("Click the right label:")
    shown = [said, table, opened]
    _on(ask.click, events.audit, key, shown)
    _on(table.select, events.open_finding, key, [opened, text, *chooser[:-1]], hidden=True)
    _on_label(chooser, events, key, head, text, events.audit, [], shown, remove)
    return opened


def _map_tab(tab: gr.Tab, events: Events, key: gr.BrowserState, head: list) -> gr.Column:
    said = gr.Markdown()
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            view = gr.HTML({"points": [], "labels": []}, html_template=MAP, css_template=_file("map.css"),
                           js_on_load=_file("map.js"), elem_id="map")  # fmt: skip
        with gr.Column(scale=2, min_width=280):
            opened, text, chooser, remove = _opened_text("Click the right label:")
    shown = [view, said, opened]
    _on(tab.select, events.map, key, shown)
    _on(view.select, events.open_point, key, [opened, text, *chooser[:-1]], hidden=True)
    _on_label(chooser, events, key, head, text, events.map, [], shown, remove)
    return opened


def _file_tab(events: Events, key: gr.BrowserState) -> None:
    upload = _upload(events, "A file of texts", False)
    run = gr.Button("Classify the file", variant="primary")
    said = gr.Markdown(elem_id="classified")
    download = gr.DownloadButton("Download the answers", visible=False)
    first = gr.Dataframe(headers=["Text", "Label", "Probability"], column_widths=["560px", "160px", "120px"],
                         label="The first answers", **TABLE)  # fmt: skip
    _on(run.click, events.classify, [key, *upload[:3]], [said, download, first], over=upload[0])


def _save_tab(events: Events, key: gr.BrowserState) -> tuple[gr.Button, gr.File]:
    gr.Markdown(
        "A zip with the encoder, the texts and what was learned from them: weights, tables and JSON, no pickle. "
        'Unpacked, `pipeline("docsplit-knn", model="classifier")` loads it.'
    )
    with gr.Row():
        save = gr.Button("Save the classifier", variant="primary")
        download = gr.DownloadButton("Download the classifier", interactive=False)
    upload = gr.File(label="A classifier that was saved here", file_types=[".zip"], height=150)
    _on(save.click, events.save, key, download)
    return gr.Button("Load it, in place of the texts on this page"), upload


def _upload(events: Events, label: str, with_labels: bool) -> list:
    """A file to choose; once chosen, its encoding, its columns, and its first rows."""
    upload = [gr.File(label=label, file_types=list(ENDINGS), height=150)]
    with gr.Row():
        for choices, name in ((ENCODINGS, "Encoding"), ([], "Column of texts"), ([], "Column of labels")):
            upload.append(gr.Dropdown(choices, label=name, visible=False, interactive=True, min_width=120))
    first = gr.Dataframe(label="The first rows", column_widths=["70%", "30%"] if with_labels else ["100%"], **TABLE)
    for given, trigger in enumerate((upload[0].change, *(chosen.input for chosen in upload[1:])), start=1):
        inputs = upload if given > 2 else upload[:given]  # a file, or another encoding of it, may have other columns
        _on(trigger, partial(events.choose_columns, with_labels), inputs, [*upload[1:], first], hidden=True)
    return upload


def _highlighted(label: str, legend: bool) -> gr.HighlightedText:
    return gr.HighlightedText(
        label=label, color_map=COLORS, show_legend=legend, show_inline_category=False, combine_adjacent=False,
        elem_classes="text-box", interactive=False,
    )  # fmt: skip


def _opened_text(question: str) -> tuple[gr.Column, gr.Textbox, list, gr.Button]:
    """An opened text, with buttons that give it a label or remove it."""
    with gr.Column(visible=False) as opened:
        text, chooser = gr.Textbox(label="Text", interactive=False, lines=3, max_lines=14), _chooser(question)
        return opened, text, chooser, gr.Button("Remove this text", size="sm")


def _chooser(question: str) -> list:
    """Buttons of labels, a list of all labels where there are more, and a box for a new one."""
    gr.Markdown(question, elem_classes="lead")
    with gr.Row(elem_classes="labels"):
        buttons = [gr.Button(visible=False, size="md") for _ in range(BUTTONS)]
    more = gr.Dropdown([], label="All labels: click, or write to search", visible=False, interactive=True)
    return [*buttons, more, gr.Textbox(placeholder="A new label, then Enter", show_label=False, max_length=200,
                                       container=False)]  # fmt: skip


def _on_label(
    chooser: list, events: Events, key: gr.BrowserState, head: list, text: gr.Textbox, then: Callable, inputs: list,
    shown: list, remove: gr.Button | None = None,
) -> None:  # fmt: skip
    """Give the text a label, or remove it, and show what comes next."""
    *buttons, more, other = chooser
    label, given = partial(events.change_and_show, then, len(shown)), [*head, *shown]
    for trigger, value in (*((one.click, one) for one in buttons), (more.select, more), (other.submit, other)):
        _on(trigger, partial(label, give_label), [key, text, value, *inputs], given)
    if remove is not None:
        _on(remove.click, partial(label, remove_text), [key, text, remove, *inputs], given)
    _on(other.submit, str, None, other, hidden=True)


def _on(trigger: Callable, fn: Callable, inputs: Any, outputs: Any, hidden: bool = False, over: Any = None) -> None:
    """Call an event. Its progress is shown over a component, or over all outputs, unless it takes no time."""
    shown = {"show_progress": "hidden" if hidden else "full", "show_progress_on": over}
    trigger(spoken(fn), inputs, outputs, **shown, **ONE_AT_A_TIME)
