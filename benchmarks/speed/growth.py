"""How the cost grows: with the length of the documents, with the batch, and with the number of documents.

    python -m benchmarks.speed.growth
    python -m benchmarks.speed.growth --longest 2048 --measure length documents

Three measurements, each a table; the first is also drawn into docs/pictures:

- length: embedding documents of 128 tokens up to --longest, packed and padded, the same number of tokens at each
  length. The encoder is small, in ModernBERT's way: 8,192 positions, a global layer after two local ones, random
  weights. The documents of a length are equally long, so that what differs is the attention, not the padding;
- batch: training with MLM at batches of 8 up to --largest_batch, on the same documents;
- documents: embedding n documents, and ten times as many of the same lengths. Ten times the time is what it should
  take; more would be something that grows faster than the documents.

In each measurement the competitors take turns; the numbers are medians.
"""

import argparse
import importlib.util
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer, ModernBertConfig, ModernBertModel

from benchmarks.inputs import (
    DEVICE,
    argument_parser,
    describe_model,
    load_texts,
    prepare_checkpoint,
    random_config,
)
from benchmarks.speed.side_by_side import ran_on, take_turns, timed
from benchmarks.speed.timed_training import load_segmented, timed_ours
from docsplit_hf import DocumentEncoder
from docsplit_hf.training.markdown import table

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SMALL = {"hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 6, "num_attention_heads": 4}
BLUE = "#0072B2"  # colors of Okabe and Ito, for all kinds of color vision
ORANGE = "#D55E00"
Series = dict[str, dict[int, float]]  # of each competitor, documents per second by length or batch


def main() -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    measures = {"length": by_length, "batch": by_batch_size, "documents": by_number}
    add("--measure", nargs="+", choices=measures, default=list(measures), help="What is measured. Default: all.")
    add("--longest", type=int, default=8192, help="Tokens of the longest documents. Default: %(default)s.")
    add("--tokens", type=int, default=32_768, help="Tokens at each length, all documents. Default: %(default)s.")
    add("--largest_batch", type=int, default=256, help="Documents. Default: %(default)s.")
    add("--documents", type=int, default=200, help="n, of n and ten times n. Default: %(default)s.")
    add("--precision", choices=("bf16", "fp32"), default="fp32", help="Default: %(default)s.")
    add("--pictures", type=Path, default=PICTURES, help="Where the pictures go. Default: docs/pictures.")
    options = parser.parse_args()
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)  # no warnings of truncation
    print(f"{options.precision}, medians of {options.rounds} rounds. {ran_on()}")
    with tempfile.TemporaryDirectory() as folder:
        config = prepare_checkpoint(options, folder)
        print(f"Batch and documents: {describe_model(options, config)}, cut at {options.max_length} tokens.")
        for measure in options.measure:
            print(f"\n{measures[measure](options, folder)}")


def doubled(first: int, last: int) -> list[int]:
    return [first * 2**i for i in range((last // first).bit_length())]


def by_length(options: argparse.Namespace, folder: str) -> str:
    speed: Series = {"packed": {}, "padded": {}}
    for length in doubled(128, options.longest):
        texts = texts_of_length(options, folder, length)
        competitors = {
            "packed": embedding(options, small_encoder(folder, length, packing="on"), texts),
            "padded": embedding(options, small_encoder(folder, length, packing="off"), texts),
        }
        seconds = take_turns(options.rounds, competitors)
        for name in speed:
            speed[name][length] = len(texts) / seconds.median(name)
    draw(
        options.pictures / "speed_by_length.png",
        speed,
        horizontal="length of a document, tokens",
        vertical="embedding, documents/s",
        logarithmic=True,
    )
    rows = [
        (f"{length:,}", f"{packed:,.2f}", f"{padded:,.2f}", f"{packed / padded:.2f}")
        for (length, packed), padded in zip(speed["packed"].items(), speed["padded"].values(), strict=True)
    ]
    return table(("tokens of a document", "packed, documents/s", "padded, documents/s", "times as fast"), rows)


def texts_of_length(options: argparse.Namespace, folder: str, length: int) -> list[str]:
    """Texts of ``length`` tokens, --tokens in all but at least one text, cut from the concatenated texts."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = tokenizer(load_texts(options.texts, options.documents), add_special_tokens=False)["input_ids"]
    tokens = np.resize(np.concatenate(rows), (max(options.tokens // length, 1), length))
    return tokenizer.batch_decode(tokens)


def small_encoder(folder: str, length: int, packing: str) -> DocumentEncoder:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = ModernBertModel(random_config(ModernBertConfig, tokenizer, **SMALL))
    return DocumentEncoder(model.to(DEVICE), tokenizer, "mean", length, packing)


def embedding(options: argparse.Namespace, encoder: DocumentEncoder, texts: list[str]) -> Callable[[], float]:
    return timed(lambda: encoder.encode(texts, show_progress=False, bf16=options.precision == "bf16"))


def by_batch_size(options: argparse.Namespace, folder: str) -> str:
    documents = load_segmented(options, folder, options.largest_batch)
    bf16 = options.precision == "bf16"
    competitors = {
        str(batch): timed_ours(folder, documents, batch, options.max_length, mlm=True, bf16=bf16)
        for batch in doubled(8, options.largest_batch)
    }
    seconds = take_turns(options.rounds, competitors)
    speed = {int(batch): len(documents) / seconds.median(batch) for batch in competitors}
    return table(
        ("documents in a batch", "training, documents/s"),
        [(f"{batch:,}", f"{rate:,.1f}") for batch, rate in speed.items()],
    )


def by_number(options: argparse.Namespace, folder: str) -> str:
    texts = load_texts(options.texts, options.documents)
    encoder = DocumentEncoder.from_pretrained(folder, "mean", options.max_length, DEVICE)
    competitors = {f"{len(chosen):,}": embedding(options, encoder, chosen) for chosen in (texts, 10 * texts)}
    seconds = take_turns(options.rounds, competitors)
    few, many = competitors
    rows = [(name, f"{seconds.median(name):.3f}") for name in competitors]
    return table(("documents", "seconds to embed them"), [*rows, ("factor", seconds.times_as_fast(few, many))])


def draw(path: Path, speed: Series, horizontal: str, vertical: str, logarithmic: bool = False) -> None:
    """Draw documents per second over length or batch size, on a linear axis from 0 or a logarithmic one."""
    if importlib.util.find_spec("matplotlib") is None:
        print("There is no picture, because matplotlib is not installed.")
        return
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for (name, series), color, marker in zip(speed.items(), (BLUE, ORANGE), "os", strict=False):
        axes.plot(list(series), list(series.values()), color=color, marker=marker, label=name)
    places = list(next(iter(speed.values())))
    axes.set(xlabel=horizontal, ylabel=vertical)
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{place:,}" for place in places])
    if logarithmic:
        axes.set_yscale("log", base=2)
    else:
        axes.set_ylim(0, 1.1 * max(max(series.values()) for series in speed.values()))
    axes.yaxis.set_major_formatter("{x:,.3g}")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
