"""The tables of docs/scale.md: what 10 million, 100 million and a billion documents take, from what was measured.

    python benchmarks/scale.py docs/results/ten_million

The folder has the records of ten_million.py; what grows with the rows is taken from the largest of them. Rates of
embedding are those of docs/performance.md, one thread. A GPU was never at hand: its hours are arithmetic.
"""

import argparse
import json
from pathlib import Path

from docsplit_hf.training.markdown import table

ROWS = (10_000_000, 100_000_000, 1_000_000_000)
DIMENSION = 384
PRECISIONS = {"float32": 4, "float16": 2, "int8": 1}
RATES = {"float32": 47.7, "int8": 130.0}  # documents/s of 149 tokens, all-MiniLM-L6-v2, by OpenVINO in int8
PEAK, SHARE = 989e12, 0.3  # an H100's bfloat16 products by its data sheet, and the share that we assume
# Layers, dimensions, parameters of the layers, tokens of a document.
SHAPES = {"all-MiniLM-L6-v2, 149 tokens": (6, 384, 10.6e6, 149), "BERT base, 512 tokens": (12, 768, 85e6, 512)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="With the records of ten_million.py.")
    records = [json.loads(file.read_text()) for file in parser.parse_args().folder.glob("*.json")]
    largest = max(records, key=lambda record: record["rows"])
    each = {name: largest[name] / largest["rows"] for name in ("keys_bytes", "index_bytes", "build_processor_s")}
    rows = [(f"keys in {name}", *(size(DIMENSION * width * n) for n in ROWS)) for name, width in PRECISIONS.items()]
    rows.append(("shards on the disk, float16, short texts", *(size(each["keys_bytes"] * n) for n in ROWS)))
    rows.append(("index, mapped or in memory", *(size(each["index_bytes"] * n) for n in ROWS)))
    rows.append(("building it, hours of a core", *(f"{each['build_processor_s'] * n / 3600:,.1f}" for n in ROWS)))
    for name, rate in RATES.items():
        rows.append((f"embedding in {name}, hours of a core", *(f"{n / rate / 3600:,.0f}" for n in ROWS)))
    for name, shape in SHAPES.items():
        rows.append(
            (f"embedding by a GPU, hours ({name})", *(f"{n * flops(*shape) / PEAK / SHARE / 3600:.2g}" for n in ROWS))
        )
    print(table(("", *(f"{n:,}" for n in ROWS)), rows))


def flops(layers: int, dimension: int, parameters: float, tokens: int) -> float:
    """Operations of one forward of one document: of products by weights, and of attention."""
    return 2 * parameters * tokens + 4 * layers * tokens**2 * dimension


def size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count < 1e12 else f"{count / 1e12:,.2f} TB"


if __name__ == "__main__":
    main()
