"""The bars of the page."""

from types import SimpleNamespace

from tqdm.auto import tqdm


def test_a_bar_whose_total_grows_never_shows_more_than_all():
    # gradio takes seconds to import, in each process that collects the tests
    import gradio as gr
    from gradio.context import LocalContext

    from docsplit_hf.apps.page.progress import follow_totals

    drawn = []

    def draw(event, bars):
        drawn.extend(bar.index / bar.length for bar in bars)

    progress = gr.Progress(track_tqdm=True)
    settings = (
        LocalContext.blocks.set(SimpleNamespace(_queue=SimpleNamespace(set_progress=draw))),
        LocalContext.event_id.set("event"),
        LocalContext.progress.set(progress),
    )
    try:
        follow_totals(progress)
        with tqdm(total=2) as outer, tqdm(total=3) as bar:
            bar.total = 40  # three texts of 40 passages
            for _ in range(40):
                bar.update()
            bar.close()
            outer.total += 3
            outer.update(5)
    finally:
        for variable, token in zip(
            (LocalContext.blocks, LocalContext.event_id, LocalContext.progress), settings, strict=True
        ):
            variable.reset(token)
    assert max(drawn) == 1
