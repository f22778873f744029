"""The page in a real browser: a new user with mouse and with keyboard, and an attacker."""

import csv
import json
import re
import shutil
import urllib.error
import urllib.request
import zipfile

import pytest
from transformers import pipeline

import docsplit_hf  # noqa: F401  which registers the pipeline
from docsplit_hf.reading.example_texts import load_example_texts

from ...documents import write_damaged, write_docx, write_pdf

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def step(page, number):
    page.get_by_role("tab").nth(number - 1).click()


def click(page, name):
    page.get_by_role("button", name=name, exact=True).filter(visible=True).click()


def unfold(page, name):
    page.locator("button.label-wrap").filter(has_text=name, visible=True).click()


def give_file(page, path):
    page.get_by_role("tabpanel").filter(visible=True).locator("input[type=file]").first.set_input_files(path)


def said(page, words):
    """Wait for a sentence of the page."""
    # It disappears by itself, so that it is found and read in one call, which looks at every frame.
    shown = page.wait_for_function(
        """words => [...document.querySelectorAll("[data-testid=toast-body]")]
            .map(toast => toast.innerText)
            .find(text => text.includes(words))""",
        arg=words,
    )
    return shown.json_value()


def settled(page):
    """Wait until no event is under way: Gradio drops a click on a button whose last event has not ended."""
    page.wait_for_function(
        "() => ![...document.querySelectorAll('[data-testid=status-tracker]:not(.hide)')].some(one => one.offsetParent)"
    )


def try_examples(page):
    click(page, "Try it with example texts")
    page.locator("#answer").get_by_text("%").first.wait_for()
    status(page, "73 texts · 40 labeled (4 labels) · 95% right (83–99%; word counts 65%")


def status(page, words):
    page.locator("#status p").filter(has_text=words).wait_for()


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_a_new_user_goes_from_the_empty_page_to_a_saved_classifier(open_page, tmp_path):
    page = open_page()
    other = open_page()
    for number in range(2, 6):
        step(page, number)
        page.get_by_text("this step needs").filter(visible=True).wait_for()
    try_examples(page)
    highlighted = page.locator(".text-box .highlighted .text").all_inner_texts()
    assert "telescope" in highlighted or "galaxy" in highlighted  # words
    page.get_by_text("Jupiter rose over the ridge").last.wait_for()  # the passage
    page.locator("#answer").get_by_text(re.compile(r"Sure: [89]\d%")).wait_for()
    unfold(page, "The most similar of your texts")
    assert page.get_by_text("% of the vote").filter(visible=True).count() == 3
    page.get_by_text("The passage that decided, 4").wait_for()

    page.locator("#asked textarea").fill("The grandmaster moved her queen and gave checkmate.")
    click(page, "Classify")
    page.locator(".text-box").get_by_text("grandmaster").first.wait_for()
    page.get_by_placeholder("A new label, then Enter").filter(visible=True).fill("chess")
    page.keyboard.press("Enter")
    page.locator("#answer h2").get_by_text("chess").wait_for()  # it was learned
    status(page, "74 texts · 41 labeled (5 labels)")

    step(page, 3)
    page.get_by_text("Measured on 40 labeled texts").wait_for()
    page.locator("#by_label").get_by_text("cooking (1)").last.wait_for()
    page.get_by_label("music: maybe cooking?").or_(page.get_by_label("astronomy: maybe sport?")).wait_for()
    page.locator("#findings").get_by_text("music: maybe cooking?").last.click()
    page.get_by_label("music: maybe cooking?").wait_for()
    click(page, "cooking")
    page.get_by_label("astronomy: maybe sport?").wait_for()
    click(page, "Keep astronomy")
    page.get_by_label("astronomy: maybe sport?").wait_for(state="detached")
    slider = page.get_by_label("range slider for Wrong answers to allow, in percent")
    slider.fill("50")
    page.locator("#allowed").get_by_text("100% of the texts get an answer").wait_for()
    slider.fill("1")
    page.locator("#allowed").get_by_text("No text gets an answer").wait_for()

    step(page, 5)
    page.get_by_label("Leave out unsure answers").check()
    click(page, "Classify")
    page.locator("#answer h2").get_by_text("No answer").wait_for()
    page.locator("#answer p").get_by_text("It would have been chess: ").wait_for()
    unfold(page, "Classify files")
    give_file(page, write(tmp_path / "texts.jsonl", [{"text": f"The keeper saved penalty {i}."} for i in range(300)]))
    page.get_by_label("Column of texts").filter(visible=True).wait_for()
    assert "Dropdown" not in page.locator("body").inner_text()  # what has no label is not shown
    widths = watch_bar(page)
    click(page, "Classify the files")
    page.get_by_text("300 rows not sure enough, or without content, got no label.").wait_for()
    assert "at most 1% wrong, as set in step 3" in page.locator("#sure_only").inner_text()
    assert len({width for width in widths() if width not in ("", "0%", "100%")}) >= 1  # it moved
    page.get_by_label("Leave out unsure answers").uncheck()
    click(page, "Classify the files")
    page.get_by_text("Classified 300 rows.").wait_for()
    with page.expect_download() as download:
        click(page, "Download the answers")
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == '"text","label","score"' and len(lines) == 301 and ',"sport",' in lines[1]
    click(page, "Classify the texts of step 1 that have no label")
    page.get_by_text("Classified 33 rows.").wait_for()

    unfold(page, "Save the classifier")
    click(page, "Save the classifier")
    with page.expect_download() as download:
        click(page, "Download the classifier")
    saved = tmp_path / "classifier.zip"
    download.value.save_as(saved)
    with zipfile.ZipFile(saved) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl", ".pickle"))]
    pipe = pipeline("docsplit-knn", model=str(tmp_path / "classifier"), device="cpu")
    assert pipe("The grandmaster moved her queen and gave checkmate.", return_neighbors=1)[0]["label"] == "chess"

    assert other.locator("#status").inner_text().startswith("No texts yet")  # another visitor


def watch_bar(page):
    """Note the widths that the progress bar has, from now on."""
    page.evaluate(
        """() => { window.widths = []; new MutationObserver(() =>
        document.querySelectorAll(".progress-bar").forEach((bar) => window.widths.push(bar.style.width)))
        .observe(document.body, {subtree: true, childList: true, attributes: true}); }"""
    )
    return lambda: page.evaluate("window.widths")


@pytest.mark.slow
def test_by_keyboard_alone_and_axe_finds_nothing_serious_in_any_step(open_page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core comes with it").Axe()
    page = open_page()
    found = []

    def go_to(name):
        for _ in range(80):
            page.keyboard.press("Tab")
            if (
                page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
                == name
            ):
                return
        raise AssertionError(f"no Tab leads to {name!r}")

    def look(step, **rules):
        options = {"resultTypes": ["violations"], **rules}
        outside = {"exclude": [[".toast-wrap"]]}  # Gradio's own, with a button in a button
        for _ in range(3):  # what is still drawn is pale
            violations = axe.run(page, outside, options).response["violations"]
            violations = [one for one in violations if one["impact"] in ("serious", "critical")]
            if not violations:
                return
            page.wait_for_timeout(700)
        found.extend((step, one["id"], node["html"][:200]) for one in violations for node in one["nodes"])

    page.get_by_role("button", name="Try it with example texts").wait_for()
    look("empty")
    go_to("Try it with example texts")
    page.keyboard.press("Enter")
    page.locator("#answer h2").get_by_text("astronomy").wait_for()
    go_to("sport")  # a button under the answer
    page.keyboard.press("Enter")
    page.locator("#answer h2").get_by_text("sport").wait_for()
    page.get_by_role("tab").last.focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_label("guessed:").wait_for()
    for _ in range(2):
        settled(page)
        before = page.locator("#next textarea").first.input_value()
        page.keyboard.press("s")
        page.wait_for_function("text => document.querySelector('#next textarea').value !== text", arg=before)
    settled(page)
    page.keyboard.press("2")
    status(page, "73 texts · 42 labeled")
    page.go_back()
    page.locator("#use-button[aria-selected=true]").wait_for()
    page.reload()
    page.locator("#use-button[aria-selected=true]").wait_for()
    status(page, "73 texts · 42 labeled")  # the texts are there
    page.get_by_role("tab").nth(2).focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("73 texts: click one.").filter(visible=True).wait_for()
    page.get_by_placeholder("Find a word or a label, then Enter").fill("galaxy")
    page.keyboard.press("Enter")
    page.get_by_text(re.compile(r"^\d texts: click one")).filter(visible=True).wait_for()
    page.locator("#listed").get_by_text("astronomy", exact=True).last.click()
    page.get_by_label("A text with").filter(visible=True).wait_for()

    cell = "#listed [data-testid=cell-0-1]:visible"
    steps = ((5, "#answer h2"), (1, "#texts"), (2, cell), (3, "#allowed p"), (4, "#next .given button"))
    for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        step(page, 5)
        page.wait_for_url("**#use")  # where a reload stays
        page.emulate_media(color_scheme=scheme)
        page.reload()
        page.locator("#use-button[aria-selected=true]").wait_for()
        status(page, "73 texts")
        page.locator("#asked textarea").fill("The telescope shows a galaxy.")
        click(page, "Classify")
        for number, shown in steps:
            step(page, number)
            page.locator(shown).first.wait_for()
            look(f"{scheme} {number}", **rules)
    assert found == [], "\n".join(map(str, found))


def test_texts_and_labels_are_shown_as_text(open_page, tmp_path):
    page = open_page()
    rows = [{"text": f"{EVIL} river number {i}.", "label": f"{EVIL} river"} for i in range(6)]
    rows += [{"text": f"**mineral** [a](javascript:alert(3)) {i} {EVIL}", "label": f"mineral {EVIL}"} for i in range(6)]
    rows += [
        {"text": rows[0]["text"] + " Again.", "label": rows[7]["label"]},
        {"text": f"{EVIL} {EVIL}", "label": None},
    ]
    give_file(page, write(tmp_path / "<img src=x onerror=alert(4)>.jsonl", rows))
    page.get_by_label("Column of labels").wait_for()
    click(page, "Add")
    said(page, "Added 13 texts with 2 labels and 1 without.")
    step(page, 5)
    page.locator("#asked textarea").fill(rows[0]["text"])
    click(page, "Classify")
    page.locator("#answer h2").get_by_text("<img").wait_for()
    click(page, rows[7]["label"])
    assert "<script>" in said(page, "This text now has the label")
    step(page, 4)
    page.get_by_label("guessed:").wait_for()
    step(page, 3)
    page.get_by_text("labels checked").wait_for()
    step(page, 2)
    page.locator("#listed [data-testid=cell-0-1]").filter(visible=True).last.click()
    page.get_by_label("A text with the label").wait_for()
    step(page, 1)
    page.get_by_label("Or lines with labels").fill(f"{EVIL} no label")
    click(page, "Add these lines")
    assert "<script>" in said(page, "Line 1 has no label")
    assert page.locator("img[src=x], a[href^=javascript]").count() == 0
    assert page.evaluate("[...document.scripts].filter(s => s.text.includes('alert')).length") == 0


@pytest.mark.slow
def test_a_bad_file_shows_a_message_and_the_page_stays_usable(open_page, tmp_path):
    page = open_page()
    labels = write(tmp_path / "labels.jsonl", [{"text": f"text {i}", "label": f"label {i}"} for i in range(300)])
    broken = tmp_path / "broken.csv"
    broken.write_text('text,label\n"a text, one\nmore,of,these,fields\n')
    with open(tmp_path / "huge.csv", "wb") as huge:
        huge.truncate(90 * 10**6)
    give_file(page, tmp_path / "huge.csv")
    said(page, "File(s) exceed the maximum allowed size")
    for path, sentence in ((broken, "broken.csv cannot be used"), (labels, "")):
        page.reload()
        give_file(page, path)
        assert not sentence or sentence in said(page, sentence)
    page.get_by_label("Column of labels").wait_for()
    click(page, "Add")
    said(page, "There are 300 different labels, and this page takes 200")
    page.get_by_label("Or lines without").fill("A star.", timeout=8_000)  # nothing lies over it
    assert page.get_by_text("Error", exact=True).count() == 0
    click(page, "Add these lines")
    status(page, "1 text")


@pytest.mark.slow
def test_a_folder_of_documents_is_dropped_and_answered_with_pages(open_page, tmp_path):
    texts = load_example_texts()
    folder = tmp_path / "inbox"
    for i, text in enumerate(texts["text"][texts["label"].isna()]):
        write_pdf(folder / f"report {i}.pdf", ["Cover sheet of this report.", text])
    write_pdf(folder / "scan.pdf", [None, None])
    write_damaged(folder / "below" / "damaged.pdf")
    page = open_page()
    try_examples(page)
    step(page, 1)
    (folder / ".DS_Store").write_bytes(b"of the system")  # one such file would make Gradio refuse all
    files = [write_docx(tmp_path / f"note {i}.docx", [f"Rain falls on the hills on day {i}."]) for i in range(3)]
    choose(page, [*files, folder / "scan.pdf"])
    page.get_by_label("Label of the documents, the same for all").fill("weather")
    click(page, "Add")
    said(page, "Added 3 texts with 1 label and 0 without. 1 file could not be read")
    page.locator("#file_failed").get_by_text("needs OCR").last.wait_for()
    status(page, "76 texts · 43 labeled (5 labels)")
    choose(page, [folder / "scan.pdf"])
    page.get_by_label("Recognize scanned pages (OCR)").check()
    click(page, "Add")
    said(page, "None of 1 file could be read.")
    why = "empty" if shutil.which("tesseract") else "the program tesseract is not on the PATH"
    page.locator("#file_failed").get_by_text(why).last.wait_for()

    step(page, 5)
    unfold(page, "Classify files")
    panel = page.get_by_role("tabpanel").filter(visible=True)
    panel.locator("input[type=file][webkitdirectory]").set_input_files(folder)
    panel.locator(".file-preview").filter(visible=True).wait_for()
    click(page, "Classify the files")
    summary = page.locator("#classified").get_by_text("Classified 33 documents. 2 files could not be read")
    summary.wait_for(timeout=60_000)
    for reason in ("scanned, without text", "damaged"):
        page.locator("#new_failed").get_by_text(reason).last.wait_for()
    page.locator("#answer_rows").get_by_text("page 2").last.click()
    shown = page.locator("#docs_passage")
    shown.get_by_text(", page 2: ").wait_for()
    assert len(shown.inner_text()) > 60
    assert page.locator("#answer_rows").get_by_text("below/damaged.pdf").count() == 0
    page.locator("#new_failed").get_by_text("below/damaged.pdf").last.wait_for()
    correct_confirm_and_undo(page)
    link = page.locator("#docs_open")
    link.get_by_text("Open the file at page 2").wait_for()
    address = link.get_attribute("href")
    assert address.endswith(".pdf#page=2") and link.get_attribute("target") == "_blank"
    sent = page.request.get(page.url.split("#")[0] + address.partition("#")[0].lstrip("/"))
    assert sent.headers["content-type"] == "application/pdf" and sent.body().startswith(b"%PDF-")
    assert sent.body() in [path.read_bytes() for path in folder.glob("report*.pdf")]
    with page.expect_download() as download:
        click(page, "Download the answers")
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert len(rows) == 35 and sum(row["page"] in ("page 2", "pages 1, 2") for row in rows) >= 30
    reasons = sorted(row["reason"].partition(" (")[0] for row in rows if not row["label"])
    assert reasons == ["damaged", "scanned, without text"]


def correct_confirm_and_undo(page):
    """Check the open row of the plan: correct it, confirm the next one, and take both back."""
    rows = page.locator("#answer_rows")
    chooser = page.locator("#planned")
    before = rows.get_by_text("confirmed").or_(rows.get_by_text("corrected")).count()
    assert before == 0
    chooser.get_by_placeholder("A new label, then Enter").fill("chess")
    page.keyboard.press("Enter")
    assert "chess, corrected" in said(page, "The next classification uses it.")
    rows.get_by_text("✓ corrected").last.wait_for()
    chooser.locator(".given button").first.click()  # the label of the answer
    rows.get_by_text("✓ confirmed").last.wait_for()
    status(page, "45 labeled (6 labels)")
    for left in ("✓ confirmed", "✓ corrected"):
        click(page, "Undo")
        rows.get_by_text(left).last.wait_for(state="detached")
    status(page, "43 labeled (5 labels)")
    rows.get_by_text("page 2").last.click()


# Gives the browser's handler of drops a folder as the system would: as entries, which are read in portions.
DROP_FOLDER = """(input) => {
  const folder = (name, path) => ({ isDirectory: true, name, fullPath: path, inside: new Map(), createReader() {
    const left = [...this.inside.values()];
    return { readEntries: (done) => done(left.splice(0, 2)) };
  }});
  const top = folder("", "");
  for (const file of input.files) {
    let place = top;
    const parts = file.name.split("\\u2215"), name = parts.pop();
    for (const part of parts) {
      if (!place.inside.has(part)) place.inside.set(part, folder(part, `${place.fullPath}/${part}`));
      place = place.inside.get(part);
    }
    place.inside.set(name, { isFile: true, fullPath: `${place.fullPath}/${name}`, file: (done) => done(file) });
  }
  const items = [...top.inside.values()].map((entry) => ({ webkitGetAsEntry: () => entry }));
  const drop = new Event("drop", { bubbles: true, cancelable: true });
  Object.defineProperty(drop, "dataTransfer", { value: { items, files: [] } });
  const zones = [...document.querySelectorAll("button.upload-container")].filter((zone) => zone.offsetParent);
  zones[0].dispatchEvent(drop);
}"""


@pytest.mark.slow
def test_a_dropped_folder_gives_its_sub_folders_as_labels(open_page, tmp_path):
    kinds = tmp_path / "kinds"
    for label in ("rain", "snow"):
        for number in range(5):
            write_pdf(kinds / label / "deep" / f"{number}.pdf", [f"Day {number}: the {label} falls on the hills."])
    (kinds / ".DS_Store").write_bytes(b"of the system")
    page = open_page()
    page.wait_for_function("window.stepOpened")
    page.evaluate("document.body.append(Object.assign(document.createElement('input'), "
                  "{ type: 'file', webkitdirectory: true, id: 'given' }))")  # fmt: skip
    page.locator("#given").set_input_files(kinds)
    page.locator("#given").evaluate(DROP_FOLDER)
    page.locator(".file-preview").filter(visible=True).get_by_text("kinds\u2215snow\u2215deep\u22154").wait_for()
    click(page, "Add")
    said(page, "Added 10 texts with 2 labels and 0 without.")
    status(page, "10 texts · 10 labeled (2 labels)")
    step(page, 2)
    page.locator("#listed").get_by_text("snow", exact=True).first.wait_for()
    page.locator("#listed").get_by_text("snow/deep/4.pdf: ").first.wait_for()


def choose(page, paths):
    """Choose several files."""
    panel = page.get_by_role("tabpanel").filter(visible=True)
    panel.locator("input[type=file][multiple]:not([webkitdirectory])").set_input_files(paths)
    page.locator(".file-preview").filter(visible=True).wait_for()


@pytest.mark.slow
def test_own_texts_survive_a_reload_and_can_be_undone_and_cleared(open_page, tmp_path):
    names = "café thé sport musique cinéma jardin voyage cuisine santé école météo argent".split()
    rows = "".join(f'"Déjà écrit ; {name} {name}{number}";{name};{number}\n' for number in range(3) for name in names)
    own = tmp_path / "own.csv"
    own.write_bytes(f"body;kind;note, if any\n{rows}Sans étiquette;;\n".encode("cp1252"))
    page = open_page(390, color_scheme="dark")
    page.locator("#example").wait_for()
    give_file(page, own)
    said(page, "own.csv is not encoded in UTF-8, and is read as cp1252.")
    assert [page.get_by_label(f"Column of {one}").input_value() for one in ("texts", "labels")] == ["body", "kind"]
    page.get_by_text("Déjà écrit ; café café0").first.wait_for()
    page.get_by_text("The first rows of 37: 36 have one of 12 labels").wait_for()
    page.get_by_label("Column of texts").click()
    page.get_by_role("option", name="kind").click()  # the wrong one
    page.get_by_text("kind (text)").wait_for()
    click(page, "Add")
    status(page, "12 labeled (12 labels)")
    click(page, "Undo")
    status(page, "No texts yet")
    give_file(page, own)
    page.get_by_text("Déjà écrit ; café café0").first.wait_for()
    click(page, "Add")
    status(page, "37 texts · 36 labeled (12 labels) · ")
    page.reload()
    status(page, "37 texts · 36 labeled (12 labels) · ")
    assert not page.locator("#example").is_visible()  # they would mix
    for number in range(1, 6):
        step(page, number)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, number

    page.locator("#asked textarea").fill("Un texte : jardin")
    click(page, "Classify")
    page.locator("#answer h2").get_by_text("jardin").wait_for()
    page.get_by_label("All labels").filter(visible=True).press_sequentially("étéo")
    page.get_by_role("option", name="météo").click()
    status(page, "38 texts · 37 labeled (12 labels)")
    click(page, "Undo")
    status(page, "37 texts · 36 labeled (12 labels)")
    step(page, 4)
    page.get_by_label("guessed:").wait_for()
    click(page, "Remove this text")
    status(page, "36 texts · 36 labeled (12 labels)")
    page.get_by_text("Nothing to suggest").wait_for()
    click(page, "Clear")
    status(page, "No texts yet")
    click(page, "Undo")
    status(page, "36 texts · 36 labeled (12 labels)")
    click(page, "Clear")
    status(page, "No texts yet")
    page.locator("#example").wait_for()


@pytest.mark.slow
def test_a_telephone_shows_labels_all_findings_and_no_keys(open_page, tmp_path):
    page = open_page(390, has_touch=True, is_mobile=True)
    page.locator("#example").wait_for()
    long = "The river is long, and so is the tale of the boat that went down it. " * 12
    rows = [{"body": f"{long} {number}", "kind": ("water", "wood")[number % 2]} for number in range(4)]
    give_file(page, write(tmp_path / "own.jsonl", rows))
    page.get_by_text("kind (label)").wait_for()
    label = page.locator("#file_rows [data-testid=cell-0-0]").filter(visible=True).last.bounding_box()
    assert 0 <= label["x"] and label["x"] + label["width"] < 390
    page.reload()
    page.locator("#example").wait_for()
    try_examples(page)
    header = page.get_by_role("tablist").bounding_box()
    assert header["y"] + header["height"] < 0.32 * 844
    step(page, 4)
    page.get_by_label("guessed:").wait_for()
    assert not page.get_by_text("Keyboard:").is_visible()
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#next .given button'), '::before').content") == "none"
    )
    step(page, 3)
    page.get_by_text("3 texts, click one to read and correct it").wait_for()
    assert page.locator("#findings").get_by_text("sport: like no other.").last.is_visible()
    page.locator("#findings").get_by_text("sport: like no other.").last.click()
    page.get_by_label("sport: like no other.").wait_for()
    page.wait_for_function("document.getElementById('finding').getBoundingClientRect().top > -1")  # it came into view
    opened = page.locator("#finding textarea").first
    assert opened.evaluate("box => box.scrollHeight - box.clientHeight") <= 2  # the whole text is seen


def test_files_of_the_server_cannot_be_read(address):
    def ask(path, data=None):
        request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()

    for path in ("/etc/passwd", "../../../../etc/passwd", "%2Fetc%2Fpasswd", f"{address}/config"):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask(f"/gradio_api/file={path}")
    assert json.loads(ask("/gradio_api/info"))["named_endpoints"] == {}
    config = json.loads(ask("/config"))
    kinds = {component["id"]: component["type"] for component in config["components"]}
    taking_files = [event for event in config["dependencies"] if "file" in map(kinds.get, event["inputs"])]
    assert len(taking_files) == 9
    for event in taking_files:
        file = {"path": "/etc/passwd", "orig_name": "a.csv", "meta": {"_type": "gradio.FileData"}}
        data = [file if kinds[given] == "file" else None for given in event["inputs"]]
        sent = {"data": data, "fn_index": event["id"], "session_hash": "evil"}
        ask("/gradio_api/queue/join", json.dumps(sent).encode())
        answer = ask("/gradio_api/queue/data?session_hash=evil")
        assert '"success":false' in answer and "root:" not in answer
