"""What mkdocs needs code for: pages from outside docs/, and links that leave it."""

import os
import re
from pathlib import Path

from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

LEAVING = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")
NOTEBOOKS = Path("examples/notebooks")
COMMANDS = Path("examples/command_line.md")


def on_files(files, config):
    """Add CONTRIBUTING.md, the help of the commands, and the notebooks as Markdown."""
    root = Path(config.docs_dir).parent
    contributing = (root / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=contributing))
    files.append(File.generated(config, f"reference/{COMMANDS.name}", content=(root / COMMANDS).read_text()))
    for notebook in sorted((root / NOTEBOOKS).glob("*.ipynb")):
        markdown, _ = MarkdownExporter().from_filename(notebook)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=markdown))
    return files


def on_page_markdown(markdown, page, config, files):
    """Have links to notebooks and commands lead to their pages, and leave out those to other files outside docs/."""

    def follow(link):
        text, target = link.groups()
        folder = Path("docs", page.file.src_uri).parent
        path = Path(os.path.normpath(folder / target))
        if path.parts[0] == "docs":
            return link[0]
        if path == COMMANDS or path.parent == NOTEBOOKS:
            section = "reference" if path == COMMANDS else "notebooks"
            return f"[{text}]({os.path.relpath(Path('docs', section, path.stem + '.md'), folder)})"
        return text

    return LEAVING.sub(follow, markdown)
