"""The site of the documentation: built without a warning, whole, and on one machine."""

import os
import re
import subprocess
import sys

import pytest

import docsplit_hf

from .commands import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, env=environment)
    assert built.returncode == 0 and not built.stderr, built.stderr
    return folder


def test_no_page_loads_anything_from_another_machine(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text()):
            assert not re.search(r'(?:src|href)="?(?:https?:)?//', tag), f"{page.name}: {tag}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\W*(?:https?:)?//", style.read_text()), style


# What people type into the search of the site, and the page that has to come first.
SEARCHED = {
    "multi-label": "multi_label",
    "several labels": "multi_label",
    "hierarchical": "multi_label",
    "PDF": "folder_of_files",
    "docx": "files",
    "Word": "files",
    "OCR": "files",
    "Excel": "files",
    "RAM": "requirements",
    "GPU": "requirements",
    "CUDA": "requirements",
    "Windows": "requirements",
    "Docker": "requirements",
    "offline": "requirements",
    "regression": "requirements",
    "imbalanced": "classification",
    "fine-tuning": "classification",
    "spreadsheet": "classification",
    "bibtex": "citing",
    "cite": "citing",
    "license": "citing",
    "HTTP": "serving",
    "REST": "serving",
    "OOM": "troubleshooting",
    "out of memory": "troubleshooting",
    "French": "encoders",
    "German": "encoders",
    "multilingual": "encoders",
    "confidence": "reliability",
    "confidence threshold": "reliability",
    "active learning": "reliability",
    "drift": "reliability",
    "LoRA": "pretraining",
    "resume": "pretraining",
    "batch size": "performance",
    "ONNX": "requirements",
    "max_passages": "long_documents",
    "SetFit": "coming_from_setfit",
    "DocumentEncoder": "reference/document_encoder",
    "KNNDatastore": "reference/datastore",
}
# Empties the list of what was found, so that what is in it afterwards belongs to the next words.
SEARCH = """words => {
    document.querySelector('.md-search-result__list').innerHTML = '';
    const input = document.querySelector('.md-search__input');
    input.value = words;
    input.dispatchEvent(new Event('keyup'));
}"""
FOUND = """() => {
    const link = document.querySelector('.md-search-result__item a');
    const nothing = document.querySelector('.md-search-result__meta').innerText.startsWith('No matching');
    return link ? link.href : nothing && 'nothing';
}"""
TALLEST = 14_000  # pixels of a page of the reference


@pytest.mark.browser
def test_what_people_search_is_found_on_the_right_page_first(site, browser):
    page = browser.new_page()
    page.goto(f"{(site / 'index.html').as_uri()}?q=pretrain")
    page.locator(".md-search-result__item a").first.wait_for(state="attached", timeout=60_000)
    wrong = {}
    for words, expected in SEARCHED.items():
        page.evaluate(SEARCH, words)
        found = page.wait_for_function(FOUND, timeout=60_000).json_value()
        place = found.removeprefix(f"{site.as_uri()}/").partition(".html")[0]
        if place != expected:
            wrong[words] = place
    page.close()
    assert not wrong


@pytest.mark.browser
def test_a_page_of_the_reference_can_be_scrolled_through(site, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    heights = {}
    for path in sorted((site / "reference").glob("*.html")):
        page.goto(path.as_uri())
        heights[path.stem] = page.evaluate("document.documentElement.scrollHeight")
    page.close()
    assert {name: height for name, height in heights.items() if height > TALLEST} == {}


@pytest.mark.browser
def test_the_search_works_from_the_disk(site, browser):
    page = browser.new_page()
    page.goto(f"{(site / 'index.html').as_uri()}?q=pretrain")
    found = page.locator(".md-search-result__item a[href*='pretraining.html']").first
    found.wait_for(state="attached", timeout=60_000)
    found.evaluate("link => link.click()")
    page.wait_for_url("file:**pretraining.html*")
    page.close()


def test_the_list_for_language_models_has_each_page_of_the_navigation(site):
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text())
    configured = re.findall(r"(\S+)\.md$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert listed == [f"{page.replace('README', 'index')}.html" for page in configured]
    assert all((site / page).exists() for page in listed)
    whole = (site / "llms-full.txt").read_text()
    assert 'pipeline("docsplit-knn")' in whole and "# Glossary" in whole and "](docs/" not in whole


def test_the_reference_has_each_exported_name_once(site):
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for name in docsplit_hf.__all__:
        assert pages.count(f'id="docsplit_hf.{name}"') == 1, name
    assert "``" not in re.sub(r"<pre.*?</pre>", "", pages, flags=re.DOTALL), "a docstring's code is not set as code"
