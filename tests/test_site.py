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


@pytest.mark.browser
def test_the_search_works_from_the_disk(site, browser):
    page = browser.new_page()
    page.goto(f"{(site / 'index.html').as_uri()}?q=pretrain")
    found = page.locator(".md-search-result__item a[href*='pretraining.html']").first
    found.wait_for(state="attached", timeout=20_000)
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
