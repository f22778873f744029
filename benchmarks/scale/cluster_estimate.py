"""A table of docs/datastore.md: sizes and times for 10 million, 100 million and a billion documents, from measurements.

    python -m benchmarks.scale.cluster_estimate docs/results/ten_million

The folder has the records of ten_million.py; quantities per row are taken from the largest of them. Rates of embedding
are those of docs/results/performance.md, one thread. The hours of a GPU are computed, not measured.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

from docsplit_hf.training.markdown import table

ROWS = (10_000_000, 100_000_000, 1_000_000_000)
DIMENSION = 384
PRECISIONS = {"float32": 4, "float16": 2, "int8": 1}
RATES = {"float32": 47.7, "int8": 130.0}  # documents/s of 149 tokens, all-MiniLM-L6-v2, by OpenVINO in int8
PEAK = 989e12  # an H100's operations per second in bfloat16, by its data sheet
SHARE = 0.3  # of the peak, an assumption


class Shape(NamedTuple):
    """An encoder and the length of its documents."""

    layers: int
    dimension: int
    parameters: float  # of the layers
    tokens: int  # of a document


SHAPES = {
    "all-MiniLM-L6-v2, 149 tokens": Shape(layers=6, dimension=384, parameters=10.6e6, tokens=149),
    "BERT base, 512 tokens": Shape(layers=12, dimension=768, parameters=85e6, tokens=512),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="With the records of ten_million.py.")
    print(sizes(parser.parse_args().folder))


def sizes(folder: Path) -> str:
    """Storage and time by the number of documents, as a table."""
    records = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    largest = max(records, key=lambda record: record["rows"])
    keys_bytes = largest["keys_bytes"] / largest["rows"]
    index_bytes = largest["index_bytes"] / largest["rows"]
    build_seconds = largest["build_processor_s"] / largest["rows"]
    rows = [(f"keys in {name}", *(size(DIMENSION * width * n) for n in ROWS)) for name, width in PRECISIONS.items()]
    rows.append(("shards on the disk, float16, short texts", *(size(keys_bytes * n) for n in ROWS)))
    rows.append(("index, mapped or in memory", *(size(index_bytes * n) for n in ROWS)))
    rows.append(("building it, hours of a core", *(f"{build_seconds * n / 3600:,.1f}" for n in ROWS)))
    for name, rate in RATES.items():
        rows.append((f"embedding in {name}, hours of a core", *(f"{n / rate / 3600:,.0f}" for n in ROWS)))
    for name, shape in SHAPES.items():
        hours = [f"{n * flops(shape) / PEAK / SHARE / 3600:.2g}" for n in ROWS]
        rows.append((f"embedding by a GPU, hours ({name})", *hours))
    return table(("", *(f"{n:,}" for n in ROWS)), rows)


def flops(shape: Shape) -> float:
    """Operations of a forward pass of one document: products with the weights, and attention."""
    return 2 * shape.parameters * shape.tokens + 4 * shape.layers * shape.tokens**2 * shape.dimension


def size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count < 1e12 else f"{count / 1e12:,.2f} TB"


if __name__ == "__main__":
    main()
