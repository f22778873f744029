"""The layout of the page, five steps, and which event each click calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from .access import OwnSiteOnly
from .changes import give_label, keep_label, remove_text
from .events import BUTTONS, LEAVE_OUT, NEEDS, Events, spoken
from .kept_sessions import VISITOR, visitor_of
from .sessions import LABEL_CHARACTERS, Limits, SharedModel
from .tools import add_tools
from .uploads import ENCODINGS, ENDINGS, SEPARATORS
from .views import NEIGHBORS, WORD

FONT, MONOSPACE = ["system-ui", "sans-serif"], ["ui-monospace", "monospace"]  # of the visitor: none is fetched
THEME = gr.themes.Default(primary_hue="blue", neutral_hue="slate", font=FONT, font_mono=MONOSPACE).set(
    button_primary_background_fill="*primary_600", button_primary_background_fill_hover="*primary_700"
)  # on which white can be read
STEPS = {
    "texts": "1 Your texts",
    "labels": "2 Your labels",
    "quality": "3 How good is it",
    "next": "4 What to label next",
    "use": "5 Use it",
}
LEADS = {
    "texts": "What is to be classified. **Bring** a file or lines; a label is the kind of a text, and not all need it.",
    "labels": "Similar texts are close together. **Click** a point or a row to change its label or remove the text.",
    "quality": "How often answers are right, how many to leave out to be right more often, which labels look wrong.",
    "next": "The texts whose labels teach most. After ten, the page learns from them and chooses ten more. "
    '<span class="keys">**Keyboard:** a number gives the label beside it, S skips the text.</span>',
    "use": "Classify a text and see why, classify a file, or save the classifier.",
}
ONE_AT_A_TIME = {"concurrency_id": "pipeline", "concurrency_limit": 2, "api_visibility": "private"}
# Nothing of a visitor is put into this: map.js draws the points, and writes the names of labels as text.
MAP = """<canvas class="points" tabindex="0" role="application"
aria-label="Map of the texts. Arrow keys go from point to point, Enter opens the text."></canvas>
<ul aria-label="Labels"></ul><span role="status"></span>"""
TABLE = {"datatype": "str", "type": "array", "interactive": False, "wrap": True, "buttons": [], "show_search": "none"}
TQDM = gr.Progress(track_tqdm=True)  # a bar of tqdm moves on the page
UPDATE = "() => ({__type__: 'update', %s})"  # in the browser alone
FILE = {"encoding": "Encoding", "separator": "Separator", "text": "Column of texts", "label": "Column of labels"}
Parts = dict[str, Any]  # the components by the names that events give


def make_page(shared: SharedModel, limits: Limits, mcp: Path | None = None) -> gr.Blocks:
    """The page of one server, with tools for assistants that know a folder. ``launch_options`` go with it."""
    with gr.Blocks(title="docsplit_hf", analytics_enabled=False, delete_cache=(3600, 24 * 3600)) as page:
        # The key keeps others out, as nobody can guess it; this encryption of it, in the browser, does not.
        parts = {"key": gr.BrowserState(storage_key="docsplit_hf", secret="docsplit_hf"), "step": gr.State("texts")}
        _head(parts)
        following = partial(_opened, name="suggested", question="Its label:", skip=True)
        layouts = (_texts, _labels, _quality, lambda parts, _: following(parts), _use)
        with gr.Tabs(selected="texts", overflow_behavior="wrap") as parts["steps"]:
            for (step, name), layout in zip(STEPS.items(), layouts, strict=True):
                with gr.Tab(name, id=step, elem_id=step) as parts[f"{step}_tab"]:
                    gr.Markdown(LEADS[step], elem_classes="lead")
                    if step in NEEDS:
                        parts[f"{step}_need"] = gr.Markdown(NEEDS[step], container=True)
                    with gr.Column(visible=step not in NEEDS) as parts[f"{step}_body"]:
                        layout(parts, limits)
        events = Events(shared, limits)
        _connect(parts, events, page)
        if mcp is not None:
            add_tools(events, mcp)
    return page


def launch_options(limits: Limits, host: str | None = None, allowed_hosts: Sequence[str] = ()) -> dict[str, Any]:
    """Arguments of ``launch``: it serves no file of the server, loads nothing from elsewhere, and has no API.

    It answers to the names of this machine, to ``host`` and to ``allowed_hosts``, and to pages of its own alone.
    """
    own_site = Middleware(OwnSiteOnly, server_host=host, allowed_hosts=allowed_hosts)
    return {
        "app_kwargs": {"middleware": [own_site]},
        "num_workers": 0,  # more would serve files in processes that have no middleware
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


def _head(parts: Parts) -> None:
    with gr.Row(elem_classes=["head", "title"]):
        gr.Markdown("# Classify documents from a few examples")
        parts["example"] = gr.Button(
            "Try it with example texts", variant="primary", size="md", visible=False, elem_id="example"
        )
        parts["undo"] = gr.Button("Undo", size="md", visible=False)
        parts["clear"] = gr.Button("Clear", size="md", visible=False)
    with gr.Column(elem_classes="state"):
        parts["status"] = gr.Markdown("No texts yet", elem_id="status")
        parts["hint"] = gr.Markdown(elem_classes="lead")
    with gr.Row(visible=False, elem_classes="head") as parts["confirm"]:
        gr.Markdown("Remove all texts from this page?")
        parts["sure_clear"] = gr.Button("Yes, remove all", variant="stop")
        parts["no_clear"] = gr.Button("No, keep them")


def _texts(parts: Parts, limits: Limits) -> None:
    with gr.Row():
        with gr.Column():
            _upload(parts, "file", "A file")
            endings = ", ".join(ENDINGS)
            takes = f"{endings} (a text in each line); at most {limits.rows:,} rows and {limits.megabytes} MB."
            gr.Markdown(takes, elem_classes="lead")
            parts["add_file"] = gr.Button("Add the file", variant="primary")
        with gr.Column():
            labeled, other = "sport: The home team won.", "One text in each line."
            parts["labeled"] = gr.Textbox(label="Or lines with labels", placeholder=labeled, lines=3, max_lines=12)
            parts["unlabeled"] = gr.Textbox(label="Or lines without labels", placeholder=other, lines=3, max_lines=12)
            parts["add_lines"] = gr.Button("Add these lines")
    with gr.Accordion("Or open a saved classifier", open=False):
        parts["saved"] = gr.File(label="A zip from step 5", file_types=[".zip"], height=130)
        parts["load"] = gr.Button("Load it, in place of the texts on this page")


def _labels(parts: Parts, _: Limits) -> None:
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            parts["map"] = gr.HTML({"points": [], "labels": []}, html_template=MAP, css_template=_file("map.css"),
                                   js_on_load=_file("map.js"), elem_id="map")  # fmt: skip
            parts["mapped"] = gr.Markdown("The map is drawn …", elem_classes="lead")
        with gr.Column(scale=2, min_width=280):
            parts["wanted"] = gr.Textbox(show_label=False, placeholder="Find a word or a label, then Enter")
            parts["listed"] = gr.Dataframe(headers=["Label", "Text"], column_widths=["30%", "70%"], max_height=420,
                                           elem_id="listed", **TABLE)  # fmt: skip
            with gr.Column(visible=False, elem_id="opened") as parts["opened"]:
                _opened(parts, "opened", "Its label is another one? Click it.")


def _quality(parts: Parts, _: Limits) -> None:
    with gr.Row():
        with gr.Column(min_width=300):
            parts["right"] = gr.Markdown()
            parts["by_label"] = gr.Dataframe(headers=["Label", "Texts", "Right", "Else taken for"], max_height=640,
                                             column_widths=["34%", "20%", "20%", "26%"],
                                             elem_id="by_label", label="The weakest label first", **TABLE)  # fmt: skip
        with gr.Column(min_width=300):
            parts["percent"] = gr.Slider(1, 50, 10, step=1, label="Wrong answers to allow, in percent")
            parts["allowed"] = gr.Markdown(elem_id="allowed")
            parts["curve"] = gr.LinePlot(x="wrong, %", y="answered, %", height=190, y_lim=[0, 100],
                                         show_label=False, tooltip="all", buttons=[])  # fmt: skip
    gr.Markdown("## Labels to look at")
    parts["audited"] = gr.Markdown(elem_classes="lead")
    with gr.Column(visible=False, elem_id="finding") as parts["finding"]:
        parts["keep"] = gr.Button("Keep", variant="primary", size="md", render=False)
        _opened(parts, "finding", "Keep it, correct it, or remove the text:", parts["keep"])
    parts["findings"] = gr.Dataframe(headers=["Finding", "Text"], elem_id="findings", column_widths=["32%", "68%"],
                                     max_height=640, **TABLE)  # fmt: skip


def _use(parts: Parts, limits: Limits) -> None:
    parts["asked"] = gr.Textbox(label="A text", lines=3, max_lines=4, max_length=limits.characters,
                                autoscroll=False, elem_id="asked")  # fmt: skip
    with gr.Row(elem_classes="head"):
        parts["ask"] = gr.Button("Classify", variant="primary")
        parts["sure_only"] = gr.Checkbox(label=LEAVE_OUT, container=False, elem_id="sure_only")
    with gr.Row(visible=False) as parts["answered"]:
        with gr.Column(scale=2, min_width=280):
            parts["answer"] = gr.HTML(elem_id="answer", container=True)
            parts["answer_label"] = gr.State()
            parts["right_label"] = gr.Button(size="md", render=False)
            _chooser(parts, "answer", "Click the right label, and the next answer knows:", parts["right_label"])
        with gr.Column(scale=3, min_width=300):
            parts["words"] = _highlighted("Words that decided")
            parts["passage"] = _highlighted("The passage that decided")
            with gr.Accordion("The most similar of your texts", open=False):
                for number in range(NEIGHBORS):
                    parts[f"near_{number}"] = _highlighted("")
    with gr.Accordion("Classify a whole file, or all texts without a label", open=False):
        parts["rest"] = gr.Button("Classify the texts of step 1 that have no label")
        _upload(parts, "new", "A file of texts")
        parts["classify"] = gr.Button("Classify the file", variant="primary")
        parts["classified"] = gr.Markdown(elem_id="classified")
        parts["answers"] = gr.DownloadButton("Download the answers", visible=False)
        parts["first"] = gr.Dataframe(headers=["Text", "Label", "Sure"], column_widths=["56%", "24%", "20%"],
                                      label="The first answers", visible=False, **TABLE)  # fmt: skip
    with gr.Accordion("Save the classifier", open=False):
        gr.Markdown(
            "A zip with the encoder, the texts and what was learned from them: weights, tables and JSON, no pickle. "
            'Unpacked, `pipeline("docsplit-knn", model="classifier")` loads it, and step 1 goes on with it.'
        )
        parts["save"] = gr.Button("Save the classifier")
        parts["download"] = gr.DownloadButton("Download the classifier", visible=False)


def _upload(parts: Parts, name: str, label: str) -> None:
    """A file to choose; once chosen, how it is read, its columns, and its first rows."""
    parts[name] = gr.File(label=label, file_types=list(ENDINGS), height=130)
    with gr.Row():
        for part, said in FILE.items():
            if name == "file" or part != "label":
                choices = {"encoding": ENCODINGS, "separator": list(SEPARATORS)}.get(part, [])
                parts[f"{name}_{part}"] = gr.Dropdown(choices, label=said, visible=False, min_width=120)
    parts[f"{name}_rows"] = gr.Dataframe(visible=False, elem_id=f"{name}_rows", max_height=440, **TABLE)


def _highlighted(label: str) -> gr.HighlightedText:
    return gr.HighlightedText(label=label, color_map={WORD: "#f59e0b"}, show_inline_category=False,
                              combine_adjacent=False, elem_classes="text-box", interactive=False)  # fmt: skip


def _opened(parts: Parts, name: str, question: str, first: gr.Button | None = None, skip: bool = False) -> None:
    """An opened text, with buttons that give it a label or remove it."""
    parts[f"{name}_text"] = gr.Textbox(label="Text", interactive=False, lines=3, max_lines=20)
    _chooser(parts, name, question, first)
    with gr.Row(elem_classes="labels"):
        parts[f"{name}_remove"] = gr.Button("Remove this text", size="sm")
        if skip:
            parts["skip"] = gr.Button("Skip this text", size="sm", elem_id="skip")


def _chooser(parts: Parts, name: str, question: str, first: gr.Button | None = None) -> None:
    """Buttons of labels, a list of all labels where there are more, and a box for a new one."""
    gr.Markdown(question, elem_classes="lead")
    with gr.Row(elem_classes=["labels", "given"]):
        if first is not None:
            first.render()
        for number in range(BUTTONS):
            parts[f"{name}_{number}"] = gr.Button(visible=False, size="md")
    more = gr.Dropdown([], label="All labels: click, or write to search", visible=False, interactive=True)
    new = gr.Textbox(
        placeholder="A new label, then Enter", show_label=False, max_length=LABEL_CHARACTERS, container=False
    )
    parts[f"{name}_more"], parts[f"{name}_new"] = more, new


def _connect(parts: Parts, events: Events, page: gr.Blocks) -> None:
    """Which event each click calls, with which parts."""
    on, view, asked = partial(_on, parts), ("step", "percent", "wanted"), ("asked", "sure_only", "percent")
    opened = on(page.load, events.opened, "key")
    opened.then(None, None, None, js=_file("page.js"))
    parts["steps"].change(None, None, None, js="() => window.stepOpened?.()")
    over = {"labels": "listed", "quality": "right", "next": "suggested_text"}
    for step in STEPS:
        show = partial(lambda step, key, *view: events.show(key, step, *view), step)
        shown = on(parts[f"{step}_tab"].select, show, "key", *view[1:], over=over.get(step))
        if step == "labels":
            on(shown.then, events.map, "key", "step", over="map")
    for trigger, event, given in (
        ("undo", events.undo, view),
        ("sure_clear", events.clear, view),
        ("load", events.open, ("saved", *view)),
    ):
        changed = on(parts[trigger].click, event, "key", *given, over="status", busy=trigger)
        on(changed.then, events.map, "key", "step", over="map")
    for trigger, asking in (("clear", "true"), ("no_clear", "false")):
        parts[trigger].click(None, None, parts["confirm"], js=UPDATE % f"visible: {asking}")

    for name, columns in (("file", list(FILE)), ("new", list(FILE)[:-1])):
        columns = [name, *(f"{name}_{part}" for part in columns)]
        for given, trigger in enumerate((parts[name].change, *(parts[one].input for one in columns[1:])), start=1):
            inputs = columns if given > 3 else columns[:given]  # a file read in another way may have other columns
            on(trigger, partial(events.choose_columns, name), *inputs)
    file = ("file", "file_text", "file_label", "file_encoding", "file_separator")
    on(parts["add_file"].click, events.add_file, "key", *file, over="file", busy="add_file")
    on(parts["add_lines"].click, events.add_pasted, "key", "labeled", "unlabeled", over="labeled", busy="add_lines")
    on(parts["example"].click, events.add_examples, "key", over="status", busy="example")

    on(parts["wanted"].submit, events.search, "key", "wanted", over="listed")
    for trigger, event, shown in (
        (parts["listed"].select, events.open_listed, "opened"),
        (parts["map"].select, events.open_point, "opened"),
        (parts["findings"].select, events.open_finding, "finding"),
    ):
        opened = on(trigger, event, "key", click=True)
        opened.then(None, None, None, js=f"() => window.bringIntoView?.({shown!r})")
    on(parts["percent"].change, events.allow, "key", "percent")
    on(parts["skip"].click, events.skip, "key", over="suggested_text", busy="skip")
    for trigger in (parts["ask"].click, parts["asked"].submit):
        on(trigger, events.ask, "key", *asked, over="asked", busy="ask")
    on(parts["right_label"].click, events.confirm, "key", "answer_label", *asked, over="answer", busy="right_label")
    new = ("new", *asked[1:], "new_text", "new_encoding", "new_separator")
    on(parts["classify"].click, events.classify, "key", *new, over="new", busy="classify")
    on(parts["rest"].click, events.classify_rest, "key", *asked[1:], over="classified", busy="rest")
    on(parts["save"].click, events.save, "key", over="save", busy="save")

    later = partial(give_label, learn_now=False)
    for name, text, change, then, given in (
        ("opened", "opened_text", give_label, events.show, view),
        ("finding", "finding_text", give_label, events.show, view),
        ("suggested", "suggested_text", later, events.show, view),
        ("answer", "asked", give_label, events.ask, asked),
    ):
        buttons = [f"{name}_{number}" for number in range(BUTTONS)]
        clicks = [(parts[button].click, button, change) for button in buttons]
        clicks += [(parts[f"{name}_more"].select, f"{name}_more", change)]
        clicks += [(parts[f"{name}_new"].submit, f"{name}_new", change)]
        if f"{name}_remove" in parts:
            clicks += [(parts[f"{name}_remove"].click, f"{name}_remove", remove_text)]
        if name == "finding":
            clicks += [(parts["keep"].click, "keep", keep_label)]
        for trigger, value, called in clicks:
            changed = on(trigger, partial(events.change_and_show, then, called), "key", text, value, *given, over=text)
            if name == "opened":
                on(changed.then, events.map, "key", "step", over="map")
        parts[f"{name}_new"].submit(None, None, parts[f"{name}_new"], js="() => (document.activeElement.blur(), '')")


def _on(
    parts: Parts, trigger: Callable, event: Callable[..., dict], *inputs: str, over: str | None = None,
    busy: str | None = None, click: bool = False,
) -> Any:  # fmt: skip
    """Call an event, which gives new values of parts by name. Its progress is shown over one, and a button waits."""

    def called(request: gr.Request, progress: gr.Progress = TQDM, *values: Any) -> Any:
        VISITOR.set(visitor_of(request.client.host if request.client else None))
        return {parts[name]: value for name, value in spoken(event)(*values).items()} or gr.skip()

    def clicked(request: gr.Request, what: gr.EventData, *values: Any) -> Any:
        return called(request, TQDM, *values, what)

    shown = {"show_progress": "full" if over else "hidden", "show_progress_on": over and parts[over]}
    if busy:
        trigger(None, None, parts[busy], js=UPDATE % "interactive: false")
    given, shown_in = [parts[name] for name in inputs], list(parts.values())
    done = trigger(clicked if click else called, given, shown_in, **shown, **ONE_AT_A_TIME)
    if busy:
        done.then(None, None, parts[busy], js=UPDATE % "interactive: true")
    return done
