"""What mkdocs needs code for: pages from outside docs/, and links to them."""

import importlib.metadata
import os
import re
from pathlib import Path

from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

FIGURE = re.compile(r"<!--=[^<>]+-->|<!-- (?:table|text): [^<>]+ -->\n?|\n?<!-- end -->")  # marks of docs/figures
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
NOTEBOOKS = Path("examples/notebooks")
# Pages from outside docs/, by where they stand on the site.
PAGES = {
    "index.md": Path("README.md"),
    "contributing.md": Path("CONTRIBUTING.md"),
    "docsplit_small_en.md": Path("model_cards/docsplit-small-en/README.md"),
    "reference/command_line.md": Path("docsplit_hf/apps/cli/command_line.md"),
}


def on_config(config):
    """The version, at the end of each page."""
    config.copyright = f"docsplit_hf {importlib.metadata.version('docsplit_hf')}, Apache 2.0"


def on_files(files, config):
    """Add the pages from outside docs/, and the notebooks as Markdown."""
    root = Path(config.docs_dir).parent
    for place, source in PAGES.items():
        files.append(File.generated(config, place, content=(root / source).read_text()))
    for notebook in sorted((root / NOTEBOOKS).glob("*.ipynb")):
        markdown, _ = MarkdownExporter().from_filename(notebook)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=markdown))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links to the places of pages on the site; remove links to other files outside, and the marks of figures."""
    here = page.file.src_uri
    source = PAGES.get(here, Path("docs", here))
    places = {path: place for place, path in PAGES.items()}

    def follow(link):
        mark, text, target, anchor = link.groups(default="")
        path = Path(os.path.normpath(source.parent / target))
        if path.parent == NOTEBOOKS:
            place = f"notebooks/{path.stem}.md"
        elif path.parts[0] == "docs":
            place = path.relative_to("docs")
        elif path in places:
            place = places[path]
        else:
            return text
        return f"{mark}[{text}]({os.path.relpath(place, Path(here).parent)}{anchor})"

    return LINK.sub(follow, FIGURE.sub("", markdown))


def on_nav(nav, config, files):
    """Keep the pages, whose Markdown is there after the build."""
    config.extra["pages"] = nav.pages


def on_post_build(config):
    """Write all pages into one file for language models, but for the reference, whose text is made of docstrings."""
    pages = [page.markdown for page in config.extra["pages"] if ":::" not in page.markdown]
    Path(config.site_dir, "llms-full.txt").write_text("\n\n".join(pages))
