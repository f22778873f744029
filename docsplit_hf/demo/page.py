"""The page: what stands where, and what is called when it is clicked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import gradio as gr

from .answer import MOST_LABELS, NEIGHBORS
from .audit_table import HEADER
from .document_map_view import document_map_view
from .events import NOTHING_YET, Events, choose_columns
from .highlighting import PASSAGE, WORD
from .limits import Limits
from .read_texts import ENDINGS
from .shared_model import SharedModel
from .spoken_errors import spoken

FONT, MONOSPACE = ["system-ui", "sans-serif"], ["ui-monospace", "monospace"]  # of the visitor: none is fetched
THEME = gr.themes.Default(primary_hue="blue", neutral_hue="slate", font=FONT, font_mono=MONOSPACE)
COLORS = {WORD: "#f59e0b", PASSAGE: "#60a5fa"}
LEAD = (
    "Give a few texts of each label. Other texts get an answer, with the examples, words and passages "
    "that speak for it."
)
ONE_AT_A_TIME = {"concurrency_id": "pipeline", "concurrency_limit": 2, "api_visibility": "private"}


class Chooser(NamedTuple):
    """Buttons with labels, and a box for another one."""

    buttons: list[gr.Button]
    other: gr.Textbox


def make_page(shared: SharedModel, limits: Limits) -> gr.Blocks:
    """The page of one server. ``launch_options`` go with it."""
    events = Events(shared, limits)
    with gr.Blocks(title="docsplit_hf", analytics_enabled=False, delete_cache=(3600, 24 * 3600)) as page:
        session = gr.State(None)
        gr.Markdown("# Classify documents from a few examples")
        gr.Markdown(LEAD, elem_classes="lead")
        with gr.Row(elem_classes="head"):
            status = gr.Markdown(NOTHING_YET, elem_id="status")
            example = gr.Button(
                "Try it with example texts", variant="primary", scale=0, min_width=260, elem_id="example"
            )
        with gr.Tabs(selected="texts") as tabs:
            with gr.Tab("Texts", id="texts"):
                _texts_tab(events, session, status, limits)
            with gr.Tab("Answer", id="answer"):
                text, shown = _answer_tab(events, session, status, limits)
            with gr.Tab("Label next", id="suggest"):
                _suggest_tab(events, session, status)
            with gr.Tab("Check labels", id="audit"):
                _audit_tab(events, session, status)
            with gr.Tab("Map", id="map") as tab:
                _map_tab(tab, events, session, status)
            with gr.Tab("Classify a file", id="file"):
                _file_tab(events, session)
            with gr.Tab("Save", id="save"):
                _save_tab(events, session, status)
        _on(example.click, events.add_examples, session, [session, status, text, *shown, tabs], over=status)
    return page


def launch_options(limits: Limits) -> dict[str, Any]:
    """What ``launch`` is to be told: no file of the server, nothing from elsewhere, no API."""
    return {
        "theme": THEME,
        "css": files(__package__).joinpath("page.css").read_text(encoding="utf-8"),
        "max_file_size": limits.megabytes * 10**6,
        "state_session_capacity": limits.sessions,
        "allowed_paths": [],
        "footer_links": [],
        "share": False,
        "ssr_mode": False,
        "mcp_server": False,
        "enable_monitoring": False,
    }


def _texts_tab(events: Events, session: gr.State, status: gr.Markdown, limits: Limits) -> None:
    with gr.Row():
        with gr.Column():
            upload = gr.File(label="A file of texts, with labels or without", file_types=list(ENDINGS), height=150)
            gr.Markdown(
                f"{', '.join(ENDINGS)}; at most {limits.rows:,} rows and {limits.megabytes} MB. Rows without a label "
                "are learned from, too.",
                elem_classes="lead",
            )
            with gr.Row():
                text_column = gr.Dropdown([], label="Column of texts", visible=False, interactive=True)
                label_column = gr.Dropdown([], label="Column of labels", visible=False, interactive=True)
            add_file = gr.Button("Add the file")
        with gr.Column():
            labeled = gr.Textbox(
                label="Texts with labels, one a line", placeholder="sport: The home team won.", lines=5, max_lines=12
            )
            unlabeled = gr.Textbox(label="Texts without labels, one a line", lines=3, max_lines=12)
            add_pasted = gr.Button("Add these lines")
    _on(upload.change, choose_columns, upload, [text_column, label_column], hidden=True)
    _on(
        add_file.click,
        events.add_file,
        [session, upload, text_column, label_column],
        [session, status, upload],
        over=upload,
    )
    _on(
        add_pasted.click,
        events.add_pasted,
        [session, labeled, unlabeled],
        [session, status, labeled, unlabeled],
        over=labeled,
    )


def _answer_tab(events: Events, session: gr.State, status: gr.Markdown, limits: Limits) -> tuple[gr.Textbox, list]:
    text = gr.Textbox(label="Text", lines=4, max_lines=12, max_length=limits.characters, elem_id="asked")
    ask = gr.Button("Classify", variant="primary")
    with gr.Row():
        with gr.Column(scale=2):
            label = gr.Label(label="Answer", visible=False, num_top_classes=MOST_LABELS, elem_id="answer")
            with gr.Column(visible=False) as right:
                chooser = _chooser("Not right? Click the label that is: the next answer knows.")
            shares = gr.BarPlot(
                x="expert", y="log odds", sort=None, tooltip="none", visible=False, height=260, buttons=[],
                label="What each expert adds",
            )  # fmt: skip
        with gr.Column(scale=3):
            pieces = _highlighted("What decided in the text", True)
            neighbors = [_highlighted("", False) for _ in range(NEIGHBORS)]
    shown = [label, pieces, shares, right, *neighbors, *chooser.buttons]
    asking = {"fn": events.ask, "inputs": [session, text], "outputs": shown, "over": text}
    for trigger in (ask.click, text.submit):
        _on(trigger, **asking)
    _on_label(chooser, events, session, status, text, lambda done: _then(done, **asking))
    return text, shown


def _suggest_tab(events: Events, session: gr.State, status: gr.Markdown) -> None:
    gr.Markdown("Where a label helps most: texts in doubt, each one for others like it.", elem_classes="lead")
    ask = gr.Button("Suggest a text", variant="primary")
    with gr.Column(visible=False) as opened:
        text, chooser = _opened_text("Its label:")
        skip = gr.Button("Skip this text", size="sm")
    shown = [opened, text, *chooser.buttons]
    _on(ask.click, events.suggest, session, shown)
    _on(skip.click, events.skip, session, shown)
    _on_label(chooser, events, session, status, text, lambda done: _then(done, events.suggest, session, shown))


def _audit_tab(events: Events, session: gr.State, status: gr.Markdown) -> None:
    gr.Markdown("Labels that the others contradict, copies, and texts that are near no other.", elem_classes="lead")
    ask = gr.Button("Check the labels", variant="primary")
    said = gr.Markdown()
    table = gr.Dataframe(
        headers=HEADER, datatype="str", type="array", interactive=False, visible=False, wrap=True, elem_id="findings",
        column_widths=["130px", "120px", "120px", "240px", "380px"], show_search="none", buttons=[],
    )  # fmt: skip
    with gr.Column(visible=False) as opened:
        text, chooser = _opened_text("Click the label that is right:")
    _on(ask.click, events.audit, session, [said, table, opened])
    _on(table.select, events.open_finding, session, [opened, text, *chooser.buttons], hidden=True)
    _on_label(
        chooser, events, session, status, text, lambda done: _then(done, events.audit, session, [said, table, opened])
    )


def _map_tab(tab: gr.Tab, events: Events, session: gr.State, status: gr.Markdown) -> None:
    with gr.Row(equal_height=True):
        said = gr.Markdown()
        method = gr.Radio(["t-SNE", "PCA"], value="t-SNE", show_label=False, container=False, scale=0, min_width=200)
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            view = document_map_view()
        with gr.Column(scale=2, min_width=280), gr.Column(visible=False) as opened:
            text, chooser = _opened_text("Click the label that is right:")
    drawing = {"fn": events.map, "inputs": [session, method], "outputs": [view, said]}
    _on(tab.select, **drawing)
    _on(method.change, **drawing)
    _on(view.select, events.open_point, session, [opened, text, *chooser.buttons], hidden=True)
    _on_label(chooser, events, session, status, text, lambda done: _then(done, **drawing))


def _file_tab(events: Events, session: gr.State) -> None:
    upload = gr.File(label="A file of texts", file_types=list(ENDINGS), height=150)
    text_column = gr.Dropdown([], label="Column of texts", visible=False, interactive=True)
    run = gr.Button("Classify the file", variant="primary")
    said = gr.Markdown(elem_id="classified")
    download = gr.DownloadButton("Download the answers", visible=False)
    first = gr.Dataframe(
        headers=["Text", "Label", "Probability"], datatype="str", type="array", interactive=False, visible=False,
        wrap=True, column_widths=["560px", "160px", "120px"], label="The first rows", show_search="none", buttons=[],
    )  # fmt: skip
    _on(upload.change, lambda path: choose_columns(path)[0], upload, text_column, hidden=True)
    _on(run.click, events.classify, [session, upload, text_column], [said, download, first], over=upload)


def _save_tab(events: Events, session: gr.State, status: gr.Markdown) -> None:
    gr.Markdown(
        "A zip with the encoder, the texts and what was learned: safetensors, tables and JSON, no pickle. Unpacked, "
        '`pipeline("docsplit-knn", model="classifier")` loads it.'
    )
    with gr.Row():
        save = gr.Button("Save the classifier", variant="primary")
        download = gr.DownloadButton("Download the classifier", interactive=False)
    upload = gr.File(label="A classifier that was saved here", file_types=[".zip"], height=150)
    load = gr.Button("Load it, in place of the texts on this page")
    _on(save.click, events.save, session, download)
    _on(load.click, events.open, upload, [session, status])


def _highlighted(label: str, legend: bool) -> gr.HighlightedText:
    return gr.HighlightedText(
        label=label, color_map=COLORS, show_legend=legend, show_inline_category=False, combine_adjacent=False,
        visible=False, elem_classes="text-box", interactive=False,
    )  # fmt: skip


def _opened_text(question: str) -> tuple[gr.Textbox, Chooser]:
    """A text, whose label says what is known of it, and the labels that it may get."""
    return gr.Textbox(label="Text", interactive=False, lines=3, max_lines=14), _chooser(question)


def _chooser(question: str) -> Chooser:
    gr.Markdown(question, elem_classes="lead")
    with gr.Row(elem_classes="labels"):
        buttons = [gr.Button(visible=False, size="md") for _ in range(MOST_LABELS)]
    other = gr.Textbox(placeholder="Another label, then Enter", show_label=False, max_length=200, container=False)
    return Chooser(buttons, other)


def _on_label(
    chooser: Chooser, events: Events, session: gr.State, status: gr.Markdown, text: gr.Textbox, after: Callable
) -> None:
    for given in (*chooser.buttons, chooser.other):
        trigger = given.submit if given is chooser.other else given.click
        after(_on(trigger, events.label, [session, text, given], [session, status]))
    _on(chooser.other.submit, lambda: "", None, chooser.other, hidden=True)


def _on(trigger: Callable, fn: Callable, inputs: Any, outputs: Any, hidden: bool = False, over: Any = None) -> Any:
    """Call an event. Its progress is shown over a component, or over all outputs, unless it takes no time."""
    shown = {"show_progress": "hidden" if hidden else "full", "show_progress_on": over}
    return trigger(spoken(fn), inputs, outputs, **shown, **ONE_AT_A_TIME)


def _then(done: Any, fn: Callable, inputs: Any, outputs: Sequence[Any], over: Any = None) -> Any:
    return _on(done.success, fn, inputs, outputs, over=over)
