"""The page in a real browser: what a new user does, by mouse and by keyboard, and what an ill-meaning one does."""

import json
import urllib.error
import urllib.request
import zipfile

import pytest
from transformers import pipeline

import docsplit_hf  # noqa: F401  which registers the pipeline

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def tab(page, name):
    """Open a tab, which a narrow window keeps behind three dots."""
    wanted = page.get_by_role("tab", name=name, exact=True)
    if wanted.is_visible():
        wanted.click()
    else:
        page.locator(".overflow-menu > button").click()
        page.locator(".overflow-dropdown").get_by_text(name, exact=True).click()


def click(page, name):
    page.get_by_role("button", name=name, exact=True).filter(visible=True).click()


def give_file(page, path):
    page.get_by_role("tabpanel").filter(visible=True).locator("input[type=file]").set_input_files(path)


def said(page, words):
    """Wait for a sentence of the page, and take it away."""
    toast = page.get_by_test_id("toast-body").filter(has_text=words).first
    toast.wait_for()
    text = toast.inner_text()
    toast.get_by_test_id("toast-close").click()
    toast.wait_for(state="detached")
    return text


def try_examples(page):
    click(page, "Try it with example texts")
    page.locator("#answer").get_by_text("%").first.wait_for()
    status(page, "40 texts with a label (4 labels) · 33 without")


def status(page, words):
    page.locator("#status p").filter(has_text=words).wait_for()


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_new_user_goes_from_the_empty_page_to_a_saved_classifier(open_page, tmp_path):
    page = open_page()
    other = open_page()
    try_examples(page)
    highlighted = page.locator(".text-box .highlighted .text").all_inner_texts()
    assert "telescope" in highlighted or "galaxy" in highlighted  # words
    assert any("Jupiter rose over the ridge" in text for text in highlighted)  # the passage
    assert page.get_by_text("% of the vote").count() == 5
    page.get_by_text("Why astronomy, not").wait_for()

    page.get_by_label("Text", exact=True).filter(visible=True).fill(
        "The grandmaster moved her queen and gave checkmate."
    )
    click(page, "Classify")
    page.locator(".text-box").get_by_text("grandmaster").first.wait_for()
    page.get_by_placeholder("A new label, then Enter").filter(visible=True).fill("chess")
    page.keyboard.press("Enter")
    page.locator("#answer h2").get_by_text("chess").wait_for()  # the next answer knows
    status(page, "41 texts with a label (5 labels)")

    tab(page, "Label next")
    click(page, "Suggest a text")
    page.get_by_label("average uncertainty").filter(visible=True).wait_for()
    click(page, "cooking")
    status(page, "42 texts with a label (5 labels) · 32 without")

    tab(page, "Check labels")
    click(page, "Check the labels")
    page.locator("#findings [data-testid=cell-0-0]").filter(visible=True).filter(has_text="wrong label?").last.click()
    page.get_by_label("A text with the label music").wait_for()
    click(page, "cooking")
    said(page, "This text now has the label 'cooking'.")

    tab(page, "Map")
    page.get_by_text("74 texts.").wait_for()
    page.get_by_role("list", name="Labels").get_by_text("no label").wait_for()
    page.locator("canvas.points").click(position=middle_of_a_point(page))
    page.get_by_label("A text with").filter(visible=True).wait_for()

    tab(page, "Classify a file")
    give_file(page, write(tmp_path / "texts.jsonl", [{"text": f"The keeper saved penalty {i}."} for i in range(300)]))
    page.get_by_label("Column of texts").filter(visible=True).wait_for()
    assert "Dropdown" not in page.locator("body").inner_text()  # what has no label is not shown
    widths = watch_bar(page)
    click(page, "Classify the file")
    page.get_by_text("Classified 300 rows.").wait_for()
    assert len({width for width in widths() if width not in ("", "0%", "100%")}) >= 1  # it moved
    with page.expect_download() as download:
        click(page, "Download the answers")
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "text,label,score" and len(lines) == 301 and ",sport," in lines[1]

    tab(page, "Save")
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
    tab(other, "Save")
    give_file(other, saved)
    click(other, "Load it, in place of the texts on this page")
    status(other, "42 texts with a label (5 labels) · 32 without")


def middle_of_a_point(page):
    """Where the first point of the map is, in pixels of the canvas."""
    page.locator("canvas.points").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    return page.evaluate(
        """() => { const canvas = document.querySelector("canvas.points"), scale = devicePixelRatio;
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        for (let i = 0; i < data.length; i += 4)
            if (data[i] === 0x44 && data[i + 1] === 0x77 && data[i + 2] === 0xaa && data[i + 3] > 230)
                return {x: (i / 4) % canvas.width / scale, y: Math.floor(i / 4 / canvas.width) / scale + 3}; }"""
    )


def watch_bar(page):
    """Note the widths that the progress bar has, from now on."""
    page.evaluate(
        """() => { window.widths = []; new MutationObserver(() =>
        document.querySelectorAll(".progress-bar").forEach((bar) => window.widths.push(bar.style.width)))
        .observe(document.body, {subtree: true, childList: true, attributes: true}); }"""
    )
    return lambda: page.evaluate("window.widths")


def test_by_keyboard_alone(open_page):
    page = open_page()

    def go_to(name):
        for _ in range(80):
            page.keyboard.press("Tab")
            if (
                page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
                == name
            ):
                return
        raise AssertionError(f"no Tab leads to {name!r}")

    page.get_by_role("button", name="Try it with example texts").wait_for()
    go_to("Try it with example texts")
    page.keyboard.press("Enter")
    page.locator("#answer h2").get_by_text("astronomy").wait_for()
    go_to("sport")  # a button under the answer
    page.keyboard.press("Enter")
    page.locator("#answer h2").get_by_text("sport").wait_for()
    page.get_by_role("button", name="Undo").focus()
    go_to("Map")
    page.keyboard.press("Enter")
    page.get_by_text("73 texts.").wait_for()
    go_to("Map of the texts. Arrow keys go from point to point, Enter opens the text.")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_label("A text with").filter(visible=True).wait_for()


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
    click(page, "Add the file")
    said(page, "Added 13 texts with a label and 1 without.")
    tab(page, "Answer")
    page.get_by_label("Text", exact=True).filter(visible=True).fill(rows[0]["text"])
    click(page, "Classify")
    page.locator("#answer h2").get_by_text("<img").wait_for()
    click(page, rows[7]["label"])
    assert "<script>" in said(page, "This text now has the label")
    for name, button in (("Label next", "Suggest a text"), ("Check labels", "Check the labels")):
        tab(page, name)
        click(page, button)
    page.get_by_text("labels checked").wait_for()
    tab(page, "Map")
    page.get_by_role("list", name="Labels").get_by_text("<img").first.wait_for()
    tab(page, "Texts")
    page.get_by_label("Texts with labels, one a line").fill(f"{EVIL} no label")
    click(page, "Add these lines")
    assert "<script>" in said(page, "Line 1 has no label")
    assert page.locator("img[src=x], a[href^=javascript]").count() == 0
    assert page.evaluate("[...document.scripts].filter(s => s.text.includes('alert')).length") == 0


def test_what_cannot_be_used_leaves_the_page_alive_with_a_sentence(open_page, tmp_path):
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
    click(page, "Add the file")
    said(page, "There are 300 different labels, and this page takes 200")
    tab(page, "Answer")
    page.locator("#asked textarea").fill("A star.")
    click(page, "Classify")
    said(page, "No labeled texts yet")
    page.locator("#asked textarea").fill("Another one.", timeout=2_000)  # nothing lies over it
    assert page.get_by_text("Error", exact=True).count() == 0
    try_examples(page)


def test_own_texts_of_twelve_labels_outlive_a_reload_and_are_undone_and_cleared(open_page, tmp_path):
    names = "café thé sport musique cinéma jardin voyage cuisine santé école météo argent".split()
    rows = "".join(f'"Déjà écrit : {name} {name}{number}",{name}\n' for number in range(3) for name in names)
    own = tmp_path / "own.csv"
    own.write_bytes(f"body,kind\n{rows}Sans étiquette,\n".encode("cp1252"))
    page = open_page(390, color_scheme="dark")
    page.locator("#example").wait_for()
    give_file(page, own)
    said(page, "own.csv is not encoded in UTF-8, and is read as cp1252.")
    assert [page.get_by_label(f"Column of {one}").input_value() for one in ("texts", "labels")] == ["body", "kind"]
    page.get_by_text("Déjà écrit : café café0").first.wait_for()
    click(page, "Add the file")
    status(page, "36 texts with a label (12 labels) · 1 without")
    page.locator("#measured").get_by_text("mixture").first.wait_for()
    page.reload()
    status(page, "36 texts with a label (12 labels) · 1 without")
    assert not page.locator("#example").is_visible()  # they would mix
    for name in ("Texts", "Check labels", "Map", "Classify a file", "Save", "Answer"):
        tab(page, name)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name

    page.locator("#asked textarea").fill("Un texte : jardin")
    click(page, "Classify")
    page.locator("#answer h2").get_by_text("jardin").wait_for()
    assert all(name in page.locator("#answer").inner_text() for name in names)
    page.get_by_label("All labels").filter(visible=True).press_sequentially("étéo")
    page.get_by_role("option", name="météo").click()
    status(page, "37 texts with a label (12 labels)")
    click(page, "Undo")
    status(page, "36 texts with a label (12 labels)")
    tab(page, "Label next")
    click(page, "Suggest a text")
    click(page, "Remove this text")
    status(page, "36 texts with a label (12 labels) · 0 without")
    click(page, "Clear")
    click(page, "No, keep them")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    click(page, "Clear")
    click(page, "Yes, remove all")
    status(page, "No texts yet")
    page.locator("#example").wait_for()


def test_no_file_of_the_server_can_be_asked_for(address):
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
    assert len(taking_files) == 11
    for event in taking_files:
        file = {"path": "/etc/passwd", "orig_name": "a.csv", "meta": {"_type": "gradio.FileData"}}
        data = [file if kinds[given] == "file" else None for given in event["inputs"]]
        sent = {"data": data, "fn_index": event["id"], "session_hash": "evil"}
        ask("/gradio_api/queue/join", json.dumps(sent).encode())
        answer = ask("/gradio_api/queue/data?session_hash=evil")
        assert '"success":false' in answer and "root:" not in answer
