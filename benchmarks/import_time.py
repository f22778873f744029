"""How long `import docsplit_hf` takes, against the import from transformers that its users do anyway.

    python benchmarks/import_time.py

Each import runs in a process of its own, the two taking turns; the table gives medians.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time

IMPORTS = {
    "transformers": "from transformers import PreTrainedModel, Pipeline",
    "docsplit_hf": "import docsplit_hf",
    "docsplit_hf, all names": "from docsplit_hf import *",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="How often each import is timed. Default: %(default)s.")
    rounds = parser.parse_args().rounds
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(rounds + 1):  # the first round warms the disk cache
        for name, statement in IMPORTS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    print(f"Python {platform.python_version()}, medians of {rounds} rounds")
    for name, median in medians.items():
        print(f"{name:<24}{median:6.2f} s   x {median / medians['transformers']:.2f}")


if __name__ == "__main__":
    main()
