"""The layout of the page with its five steps, and the events that clicks call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from ..own_site_only import OwnSiteOnly
from .changes import give_label, keep_label, remove_text
from .component_values import LABEL_BUTTONS, LEAVE_OUT, opened_answer, opened_finding, opened_text
from .document_links import ROUTE
from .documents import FAILED_HEADERS
from .events import STEP_NEEDS, Events, show_errors
from .plan import check_answer
from .progress import follow_totals
from .sessions import LABEL_CHARACTERS, PageLimits, SharedModel
from .uploads import ENCODINGS, ENDINGS
from .views import SHOWN_NEIGHBORS, WORD

# Fonts of the visitor's system, so that none is downloaded; blues on which white text is legible.
THEME = gr.themes.Default(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "sans-serif"],
    font_mono=["ui-monospace", "monospace"],
).set(button_primary_background_fill="*primary_600", button_primary_background_fill_hover="*primary_700")
STEP_TITLES = {
    "texts": "1 Your texts",
    "labels": "2 Your labels",
    "quality": "3 How good is it",
    "next": "4 What to label next",
    "use": "5 Use it",
}
STEP_LEADS = {
    "texts": "Texts to learn from, with labels or without. **Drop** a table, documents or a folder, or write lines.",
    "labels": "All texts of this page. **Click** a row to change the label of its text, or to remove it.",
    "quality": "How often answers are right, how many to leave out to be right more often, which labels look wrong.",
    "next": "The most useful texts to label. After ten, the page learns from them and chooses ten more. "
    '<span class="keys">**Keyboard:** a number gives the label beside it, S skips the text.</span>',
    "use": "Classify a text and see why, classify files, or save the classifier.",
}
TABLE = {"datatype": "str", "type": "array", "interactive": False, "wrap": True, "buttons": [], "show_search": "none"}
TQDM = gr.Progress(track_tqdm=True)  # shows the progress bars of tqdm on the page
FILE_CHOICES = {
    "encoding": "Encoding",
    "text": "Column of texts",
    "label": "Column of labels",
}
Parts = dict[str, Any]  # components by the names that events use


def make_page(shared: SharedModel, limits: PageLimits) -> gr.Blocks:
    """Make the page of one server, which ``launch_page`` serves."""
    with gr.Blocks(title="docsplit_hf", analytics_enabled=False, delete_cache=(3600, 24 * 3600)) as page:
        # The key protects a session, because it cannot be guessed; its encryption in the browser adds nothing.
        parts = {"key": gr.BrowserState(storage_key="docsplit_hf", secret="docsplit_hf"), "step": gr.State("texts")}
        _head(parts)
        layouts = {"texts": _texts, "labels": _labels, "quality": _quality, "next": _suggested, "use": _use}
        with gr.Tabs(selected="texts", overflow_behavior="wrap") as parts["steps"]:
            for step, title in STEP_TITLES.items():
                with gr.Tab(title, id=step, elem_id=step) as parts[f"{step}_tab"]:
                    gr.Markdown(STEP_LEADS[step], elem_classes="lead")
                    if step in STEP_NEEDS:
                        parts[f"{step}_need"] = gr.Markdown(STEP_NEEDS[step], container=True)
                    with gr.Column(visible=step not in STEP_NEEDS) as parts[f"{step}_body"]:
                        layouts[step](parts, limits)
        _connect(parts, Events(shared, limits), page)
    return page


def launch_page(
    page: gr.Blocks,
    limits: PageLimits,
    host: str | None = None,
    port: int | None = None,
    allowed_hosts: Sequence[str] = (),
    in_browser: bool = False,
) -> None:
    """Serve the page until it is stopped.

    The page serves no files of this machine, loads nothing from other servers, and has no API. Requests must be to a
    name of this machine, ``host`` or ``allowed_hosts``, and must not come from pages of other sites.
    """
    own_site = Middleware(OwnSiteOnly, server_host=host, allowed_hosts=allowed_hosts)
    page.launch(
        server_name=host,
        server_port=port,
        inbrowser=in_browser,
        app_kwargs={"middleware": [own_site], "routes": [ROUTE]},
        num_workers=0,  # workers would serve files without the middleware
        theme=THEME,
        css=_file("page.css"),
        max_file_size=limits.megabytes * 10**6,
        allowed_paths=[],
        footer_links=[],
        share=False,
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        quiet=True,  # Gradio would advise a public link, by which the texts would leave this machine
        prevent_thread_lock=True,
    )
    print(f"The page: {page.local_url}", flush=True)
    page.block_thread()


def _file(name: str) -> str:
    """The content of a file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _head(parts: Parts) -> None:
    """Lay out the title and the state above all steps."""
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


def _texts(parts: Parts, limits: PageLimits) -> None:
    """Lay out step 1, where texts are added."""
    with gr.Row():
        with gr.Column():
            _files(parts, "file", limits)
            parts["docs_label"] = gr.Textbox(
                label="Label of the documents, the same for all",
                placeholder="Empty: the names of their folders, if the folder has one for each label; otherwise none",
                max_length=LABEL_CHARACTERS,
                visible=False,
            )
            parts["add_file"] = gr.Button("Add", variant="primary")
            _failed(parts, "file")
        with gr.Column():
            parts["labeled"] = gr.Textbox(
                label="Or lines with labels", placeholder="sport: The home team won.", lines=3, max_lines=12
            )
            parts["unlabeled"] = gr.Textbox(
                label="Or lines without labels", placeholder="One text in each line.", lines=3, max_lines=12
            )
            parts["add_lines"] = gr.Button("Add these lines")


def _labels(parts: Parts, _: PageLimits) -> None:
    """Lay out step 2, the list of texts."""
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            parts["wanted"] = gr.Textbox(show_label=False, placeholder="Find a word or a label, then Enter")
            parts["listed"] = gr.Dataframe(headers=["Label", "Text"], column_widths=["30%", "70%"], max_height=560,
                                           elem_id="listed", **TABLE)  # fmt: skip
        with gr.Column(visible=False, elem_id="opened", scale=2, min_width=280) as parts["opened"]:
            _opened(parts, "opened", "Wrong label? Click the right one.")


def _quality(parts: Parts, _: PageLimits) -> None:
    """Lay out step 3, accuracy and audit."""
    with gr.Row():
        with gr.Column(min_width=300):
            parts["right"] = gr.Markdown()
            parts["by_label"] = gr.Dataframe(headers=["Label", "Texts", "Right", "Mistaken for"], max_height=640,
                                             column_widths=["34%", "20%", "20%", "26%"],
                                             elem_id="by_label", label="The weakest label first", **TABLE)  # fmt: skip
        with gr.Column(min_width=300):
            parts["percent"] = gr.Slider(1, 50, 10, step=1, label="Wrong answers to allow, in percent")
            parts["allowed"] = gr.Markdown(elem_id="allowed")
    gr.Markdown("## Labels to look at")
    parts["audited"] = gr.Markdown(elem_classes="lead")
    with gr.Column(visible=False, elem_id="finding") as parts["finding"]:
        _opened(parts, "finding", "Correct it, keep it, or remove the text:", other="Keep")
    parts["findings"] = gr.Dataframe(headers=["Finding", "Text"], elem_id="findings", column_widths=["32%", "68%"],
                                     max_height=640, **TABLE)  # fmt: skip


def _suggested(parts: Parts, _: PageLimits) -> None:
    """Lay out step 4, the text to label next."""
    _opened(parts, "suggested", "Its label:", other="Skip this text")


def _use(parts: Parts, limits: PageLimits) -> None:
    """Lay out step 5, answers."""
    parts["asked"] = gr.Textbox(label="A text", lines=3, max_lines=4, max_length=limits.characters,
                                autoscroll=False, elem_id="asked")  # fmt: skip
    with gr.Row(elem_classes="head"):
        parts["ask"] = gr.Button("Classify", variant="primary")
        parts["sure_only"] = gr.Checkbox(label=LEAVE_OUT, container=False, elem_id="sure_only")
    with gr.Row(visible=False) as parts["answered"]:
        with gr.Column(scale=2, min_width=280):
            parts["answer"] = gr.HTML(elem_id="answer", container=True)
            _chooser(parts, "answer", "Click the right label, and the page learns from it:")
        with gr.Column(scale=3, min_width=300):
            parts["words"] = _highlighted("Words that decided (with −: against it)")
            parts["passage"] = _highlighted("The passage that decided")
            with gr.Accordion("The most similar of your texts", open=False):
                for number in range(SHOWN_NEIGHBORS):
                    parts[f"near_{number}"] = _highlighted("")
    with gr.Accordion("Classify files, or all texts without a label", open=False):
        parts["rest"] = gr.Button("Classify the texts of step 1 that have no label")
        _files(parts, "new", limits)
        parts["classify"] = gr.Button("Classify the files", variant="primary")
        parts["classified"] = gr.Markdown(elem_id="classified")
        _plan(parts)
        _failed(parts, "new")
    with gr.Accordion("Save the classifier", open=False):
        gr.Markdown(
            "A zip with the encoder, the texts and what was learned from them: weights, tables and JSON, no pickle. "
            'Unpack it for `pipeline("docsplit-knn", model="classifier")` or `docsplit demo --model classifier`.'
        )
        parts["save"] = gr.Button("Save the classifier")
        parts["download"] = gr.DownloadButton("Download the classifier", visible=False)


def _plan(parts: Parts) -> None:
    """Lay out the plan: what was classified, and a row to confirm or correct."""
    parts["answer_rows"] = gr.Dataframe(elem_id="answer_rows", max_height=420, visible=False, **TABLE)
    with gr.Column(visible=False, elem_id="planned") as parts["planned"]:
        parts["planned_row"] = gr.State()
        parts["docs_passage"] = _highlighted("", elem_id="docs_passage")
        parts["docs_open"] = gr.Button(visible=False, link_target="_blank", elem_id="docs_open")
        _chooser(parts, "planned", "Click the right label, and the page learns from it:")
    parts["answers"] = gr.DownloadButton("Download the answers", visible=False)


def _files(parts: Parts, name: str, limits: PageLimits) -> None:
    """Lay out a zone for a table, documents or a folder, and what is chosen for each of them.

    ``name`` is "file" for what is added, and "new" for what is classified.
    """
    parts[name] = gr.File(label="Files or a folder", file_count="multiple", height=130)
    parts[f"{name}_folder"] = gr.UploadButton("Choose a folder", file_count="directory", size="sm")
    gr.Markdown(
        f"A table ({', '.join(ENDINGS)} with a text in each line), or documents: PDF, Word, PowerPoint, Excel, "
        f"HTML, mail, ... At most {limits.rows:,} rows or documents, {limits.megabytes} MB each.",
        elem_classes="lead",
    )
    choices = {"encoding": ENCODINGS, "text": [], "label": []}
    with gr.Row():
        for choice, title in FILE_CHOICES.items():
            if name == "file" or choice != "label":
                parts[f"{name}_{choice}"] = gr.Dropdown(choices[choice], label=title, visible=False, min_width=200)
    parts[f"{name}_rows"] = gr.Dataframe(visible=False, elem_id=f"{name}_rows", max_height=440, **TABLE)
    parts[f"{name}_ocr"] = gr.Checkbox(
        label="Recognize scanned pages (OCR)", container=False, visible=False, elem_id=f"{name}_ocr"
    )


def _failed(parts: Parts, name: str) -> None:
    """Lay out the list of documents that could not be read."""
    parts[f"{name}_failed"] = gr.Dataframe(headers=FAILED_HEADERS, column_widths=["30%", "30%", "40%"],
                                           elem_id=f"{name}_failed", label="Could not be read", max_height=420,
                                           visible=False, **TABLE)  # fmt: skip


def _highlighted(label: str, elem_id: str | None = None) -> gr.HighlightedText:
    """A text with marked words."""
    return gr.HighlightedText(label=label, color_map={WORD: "#f59e0b"}, show_inline_category=False,
                              combine_adjacent=False, elem_classes="text-box", interactive=False,
                              elem_id=elem_id)  # fmt: skip


def _opened(parts: Parts, name: str, question: str, other: str | None = None) -> None:
    """Lay out an opened text, with buttons to label or remove it, or to do something else."""
    parts[f"{name}_text"] = gr.Textbox(label="Text", interactive=False, lines=3, max_lines=20)
    _chooser(parts, name, question)
    with gr.Row(elem_classes="labels"):
        parts[f"{name}_remove"] = gr.Button("Remove this text", size="sm")
        if other is not None:
            parts[f"{name}_other"] = gr.Button(other, size="sm", elem_id=f"{name}_other")


def _chooser(parts: Parts, name: str, question: str) -> None:
    """Lay out buttons of labels, a list of all labels if there are more, and a box for a new one."""
    gr.Markdown(question, elem_classes="lead")
    with gr.Row(elem_classes=["labels", "given"]):
        for number in range(LABEL_BUTTONS):
            parts[f"{name}_{number}"] = gr.Button(visible=False, size="md")
    parts[f"{name}_more"] = gr.Dropdown(
        [], label="All labels: click, or write to search", visible=False, interactive=True
    )
    parts[f"{name}_new"] = gr.Textbox(
        placeholder="A new label, then Enter", show_label=False, max_length=LABEL_CHARACTERS, container=False
    )


VIEW = ("step", "percent", "wanted")  # the arguments of ``Events.show`` after the key
ASKED = ("asked", "sure_only", "percent")  # the arguments of ``Events.ask`` after the key


class _Connector:
    """Connects clicks to events."""

    def __init__(self, parts: Parts, events: Events) -> None:
        self.parts = parts
        self.events = events

    def on(
        self,
        trigger: Callable,
        event: Callable[..., dict],
        inputs: Sequence[str],
        over: str | None = None,
        click: bool = False,
    ) -> Any:
        """Connect a trigger to an event, which returns new values of components by name.

        Args:
            trigger: The method of a component that calls the event.
            event: The event.
            inputs: The components with its arguments.
            over: The component over which progress is shown.
            click: Whether the event gets the clicked place as its last argument.
        """
        parts = self.parts

        def called(progress: gr.Progress = TQDM, *values: Any) -> Any:
            follow_totals(progress)
            return {parts[name]: value for name, value in show_errors(event)(*values).items()} or gr.skip()

        def clicked(what: gr.EventData, *values: Any) -> Any:
            return called(TQDM, *values, what)

        return trigger(
            clicked if click else called,
            [parts[name] for name in inputs],
            list(parts.values()),
            show_progress="full" if over else "hidden",
            show_progress_on=parts[over] if over else None,
            concurrency_id="pipeline",
            concurrency_limit=2,
            api_visibility="private",
        )

    def show_step(self, step: str) -> None:
        """Show a step when its tab is selected."""

        def show(key: str | None, percent: int, wanted: str) -> dict:
            return self.events.show(key, step, percent, wanted)

        over = {"labels": "listed", "quality": "right", "next": "suggested_text"}.get(step)
        self.on(self.parts[f"{step}_tab"].select, show, ["key", "percent", "wanted"], over=over)

    def read_file(self, name: str, choices: Sequence[str]) -> None:
        """Read uploaded files again whenever a choice on how to read them changes."""
        parts = self.parts
        inputs = [name, *(f"{name}_{choice}" for choice in choices)]
        event = partial(self.events.choose_columns, name)
        parts[f"{name}_folder"].upload(None, parts[f"{name}_folder"], parts[name], js="(files) => [files]")
        self.on(parts[name].change, event, [name])
        # With another encoding the file may have other columns: these are guessed again.
        self.on(parts[f"{name}_encoding"].input, event, inputs[:2])
        for choice in inputs[2:]:
            self.on(parts[choice].input, event, inputs)

    def open_row(self, table: str, show: Callable[..., dict], shown: str) -> None:
        """Open the row of a table that was clicked, and scroll to it."""
        opened = self.on(self.parts[table].select, partial(self.events.open_row, show), ["key"], click=True)
        opened.then(None, None, None, js=f"() => window.bringIntoView?.({shown!r})")

    def change_label(
        self,
        name: str,
        text: str,
        give_label: Callable[..., str],
        then: Callable[..., dict],
        inputs: Sequence[str],
        over: str | None = None,
    ) -> None:
        """Connect all buttons of a chooser, its list and its box for a new label.

        Args:
            name: The chooser.
            text: The component with the text.
            give_label: What a click on a label does.
            then: The event to run after the change.
            inputs: The components with the arguments of that event.
            over: The component over which progress is shown, if not ``text``.
        """
        parts = self.parts
        clicks = [(parts[f"{name}_{n}"].click, f"{name}_{n}", give_label) for n in range(LABEL_BUTTONS)]
        clicks.append((parts[f"{name}_more"].select, f"{name}_more", give_label))
        clicks.append((parts[f"{name}_new"].submit, f"{name}_new", give_label))
        if f"{name}_remove" in parts:
            clicks.append((parts[f"{name}_remove"].click, f"{name}_remove", remove_text))
        for trigger, value, change in clicks:
            event = partial(self.events.change_and_show, then, change)
            self.on(trigger, event, ["key", text, value, *inputs], over=over or text)
        parts[f"{name}_new"].submit(None, None, parts[f"{name}_new"], js="() => (document.activeElement.blur(), '')")


def _connect(parts: Parts, events: Events, page: gr.Blocks) -> None:
    """Connect each click to its event."""
    connector = _Connector(parts, events)
    on = connector.on
    opened = on(page.load, events.opened, ["key"])
    opened.then(None, None, None, js=_file("page.js"))
    parts["steps"].change(None, None, None, js="() => window.stepOpened?.()")
    for step in STEP_TITLES:
        connector.show_step(step)
    on(parts["undo"].click, events.undo, ["key", *VIEW], over="status")
    on(parts["clear"].click, events.clear, ["key", *VIEW], over="status")

    connector.read_file("file", ["encoding", "text", "label"])
    connector.read_file("new", ["encoding", "text"])
    file = ["key", "file", "file_text", "file_label", "file_encoding", "docs_label", "file_ocr"]
    on(parts["add_file"].click, events.add_files, file, over="file")
    on(parts["add_lines"].click, events.add_pasted, ["key", "labeled", "unlabeled"], over="labeled")
    on(parts["example"].click, events.add_examples, ["key"], over="status")

    on(parts["wanted"].submit, events.search, ["key", "wanted"], over="listed")
    connector.open_row("listed", opened_text, "opened")
    connector.open_row("findings", opened_finding, "finding")
    on(parts["percent"].change, events.allow, ["key", "percent"])
    on(parts["suggested_other"].click, events.skip, ["key"], over="suggested_text")
    for trigger in (parts["ask"].click, parts["asked"].submit):
        on(trigger, events.ask, ["key", *ASKED], over="asked")
    new = ["key", "new", "sure_only", "percent", "new_text", "new_encoding", "new_ocr"]
    on(parts["classify"].click, events.classify, new, over="new")
    on(parts["rest"].click, events.classify_rest, ["key", "sure_only", "percent"], over="classified")
    connector.open_row("answer_rows", opened_answer, "planned")
    on(parts["save"].click, events.save, ["key"], over="save")

    give_label_later = partial(give_label, learn_now=False)
    connector.change_label("opened", "opened_text", give_label, events.show, VIEW)
    connector.change_label("finding", "finding_text", give_label, events.show, VIEW)
    keep = partial(events.change_and_show, events.show, keep_label)
    on(parts["finding_other"].click, keep, ["key", "finding_text", "finding_other", *VIEW], over="finding_text")
    connector.change_label("planned", "planned_row", check_answer, events.plan, ["planned_row"], over="docs_passage")
    connector.change_label("suggested", "suggested_text", give_label_later, events.show, VIEW)
    connector.change_label("answer", "asked", give_label, events.ask, ASKED)
