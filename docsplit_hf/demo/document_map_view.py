"""The map as a component of Gradio: points on a canvas, by mouse and by keyboard."""

from __future__ import annotations

from importlib.resources import files

import gradio as gr

# Nothing of a visitor is put into this: map.js draws the points, and writes the names of labels as text.
TEMPLATE = """<canvas class="points" tabindex="0" role="application"
aria-label="Map of the texts. Arrow keys go from point to point, Enter opens the text."></canvas>
<ul aria-label="Labels"></ul>
<p>Click a point to open its text. By keyboard: arrows go from point to point, Enter opens.
<span role="status"></span></p>"""


def document_map_view() -> gr.HTML:
    """Its value is that of ``document_map``; ``select`` gives the ``id`` of the point."""
    here = files(__package__)
    script, style = (here.joinpath(name).read_text(encoding="utf-8") for name in ("map.js", "map.css"))
    return gr.HTML({"points": [], "labels": []}, html_template=TEMPLATE, css_template=style, js_on_load=script,
                   elem_id="map")  # fmt: skip
