"""Kill ``docsplit watch`` while files come and are moved, and check that each file is in its place once.

    python -m benchmarks.release.watched_folder --output docs/results/watched_folder.json

Files are dropped in bursts, some of them half-written first, while the process is killed by SIGKILL at random moments
and started again. At the end each file must be in one place, that of the pipeline's answer. Then files about gardening,
which are of no label, are moved to the folder "sport", one of them while nothing is running: later ones must follow.
At last files are dropped one by one and in a burst, and it is measured how long after resting they are sorted.
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

from transformers import pipeline

import docsplit_hf  # noqa: F401  which registers the pipeline
from docsplit_hf.apps.cli import watch
from docsplit_hf.classifier.sorting.sorted_files import MANIFEST, read_sorted
from docsplit_hf.classifier.sorting.watching import MOVED
from docsplit_hf.content_hash import sha256_of_file
from docsplit_hf.reading.example_texts import load_example_texts
from tests.documents import write_docx

REST = 1.0
PAUSE_WITHIN_FILE = 3.0  # longer than REST, shorter than an unreadable file waits
LONGEST_WAIT = 240.0  # seconds
LONGEST_RUN = 4.0  # seconds after the first sorted file, until a kill
PLANTS = ("roses", "tulips", "tomato seedlings", "lavender", "ferns", "hedges", "apple trees", "strawberry runners")
CARE = ("prune {} in March", "mulch {} before the frost", "water {} at the root", "move {} out of the wind")
REASONS = ("so that the shoots grow.", "as the soil in the bed is heavy.", "and the leaves stay healthy.")
GARDENING = [
    f"Every gardener should {care.format(plant)} {why}" for plant in PLANTS for care in CARE for why in REASONS
]
CORRECTED = "sport"


def run_watch(folder: Path) -> None:
    """Run docsplit watch in a process group of its own, with a file for its log."""
    os.setsid()
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["docsplit watch", "inbox", "sorted", "--model", "model", "--rest", str(REST), "--use_cpu"]
    watch.run()


class WatchProcess:
    """docsplit watch in a process that is forked from one that has imported all libraries, so that it starts fast."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: BaseProcess | None = None
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([__name__])

    def start(self) -> None:
        """Start it, and wait until it has looked at the folders once."""
        before = self.log().count("is watched")
        self.process = self.context.Process(target=run_watch, args=(self.folder,))
        self.process.start()
        wait_for(lambda: self.log().count("is watched") > before, "the start")

    def log(self) -> str:
        """What it has logged, in all its runs."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def kill(self) -> None:
        """Kill it by SIGKILL, and the processes that read files for it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--files", type=int, default=500, help="Default: %(default)s.")
    add("--half_written", type=int, default=50, help="Default: %(default)s.")
    add("--kills", type=int, default=20, help="Default: %(default)s.")
    add("--seed", type=int, default=0, help="Default: %(default)s.")
    add("--output", type=Path, default=None, help="A .json file for the figures.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="docsplit-watch-") as folder:
        figures = run(Path(folder), args.files, args.half_written, args.kills, args.seed)
    print(json.dumps(figures, indent=2))
    if args.output is not None:
        args.output.write_text(json.dumps(figures, indent=2) + "\n")
    if figures["problems"]:
        raise SystemExit(1)


def run(folder: Path, files: int, half_written: int, kills: int, seed: int) -> dict:
    """Run all three parts, and return the figures."""
    rng = random.Random(seed)
    make_classifier(folder / "model")
    shutil.copytree(folder / "model", folder / "model before")
    (folder / "inbox").mkdir()
    process = WatchProcess(folder)
    try:
        dropped = drop_and_kill(process, files, half_written, kills, rng)
        problems = check(folder, dropped, "model before")
        corrections = correct(process)
        seconds = measure(process)
    finally:
        process.kill()
    problems += check_once(folder)
    return {
        "files": len(dropped),
        "half_written": half_written,
        "kills": kills,
        "problems": problems,
        "corrections": corrections,
        "seconds_from_resting_to_sorted": seconds,
        "rest_seconds": REST,
        "cores": os.cpu_count(),
    }


def make_classifier(folder: Path) -> None:
    """Fit a classifier on the example texts, and save it."""
    texts = load_example_texts()
    labeled = texts[texts["label"].notna()]
    pipe = pipeline("docsplit-knn", device="cpu")
    pipe.add_examples(labeled["text"].tolist(), labeled["label"].tolist())
    pipe.add_documents(texts[texts["label"].isna()]["text"].tolist())
    pipe.fit(show_progress=False)
    pipe.save_pretrained(folder)


def drop_and_kill(process: WatchProcess, files: int, half_written: int, kills: int, rng: random.Random) -> list[Path]:
    """Drop a burst of files for each kill, and kill the process while it sorts them; return the files."""
    texts = load_example_texts()["text"].tolist()
    contents = [content_of(f"{texts[i % len(texts)]} Number {i}.", i) for i in range(files)]
    places = [process.folder / "inbox" / f"{i % 7}" / f"scan {i // 7}{ending_of(i)}" for i in range(files)]
    halves = set(rng.sample(range(files), half_written))
    bursts = [range(number, files, kills + 1) for number in range(kills + 1)]
    writers = []
    for number, burst in enumerate(bursts):
        process.start()
        sorted_before = len(entries_of(process.folder))
        for i in burst:
            pause = PAUSE_WITHIN_FILE if i in halves else 0.0
            writers.append(threading.Thread(target=write_in_halves, args=(places[i], contents[i], pause)))
            writers[-1].start()
        if number < kills:
            wait_for(lambda: len(entries_of(process.folder)) > sorted_before, "a sorted file")  # noqa: B023
            time.sleep(rng.random() * LONGEST_RUN)
            process.kill()
    for writer in writers:
        writer.join()
    wait_for(lambda: {entry.source for entry in entries_of(process.folder)} >= {str(place) for place in places}, "all")
    time.sleep(3 * REST)
    return places


def content_of(text: str, number: int) -> bytes:
    """The content of a Word file, or of a text file."""
    if ending_of(number) == ".txt":
        return text.encode()
    with tempfile.TemporaryDirectory() as folder:
        return write_docx(Path(folder, "text.docx"), [text]).read_bytes()


def ending_of(number: int) -> str:
    """Every third file is a text file, the others are Word files."""
    return ".docx" if number % 3 else ".txt"


def write_in_halves(path: Path, content: bytes, pause: float) -> None:
    """Write a file, with a pause within it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    middle = len(content) // 2 if pause else len(content)
    with open(path, "wb") as file:
        file.write(content[:middle])
        file.flush()
        # A half of a text file cannot be told from a whole one, so it does not pause for longer than files rest.
        time.sleep(pause if path.suffix == ".docx" else min(pause, REST / 2))
        file.write(content[middle:])


def entries_of(folder: Path) -> list:
    """The lines of the manifest whose files are in their places; none while a line is being written."""
    manifest = folder / "sorted" / MANIFEST
    try:
        entries = read_sorted(manifest) if manifest.exists() else []
    except ValueError:
        return []
    return [entry for entry in entries if (manifest.parent / entry.target).exists()]


def check(folder: Path, dropped: list[Path], model: str) -> list[str]:
    """Compare the places of files with the answers of the pipeline; return what is wrong."""
    problems = check_once(folder)
    pipe = pipeline("docsplit-knn", model=str(folder / model), device="cpu")
    answers = pipe(dropped)
    entry_of = {entry.source: entry for entry in entries_of(folder)}
    for path, answer in zip(dropped, answers, strict=True):
        entry = entry_of.get(str(path))
        if entry is None or entry.label != answer["label"] or not entry.target.startswith(f"{answer['label']}/"):
            problems.append(f"{path} is not in its place: {entry}, {answer}")
    return problems


def check_once(folder: Path) -> list[str]:
    """Check that each file is in one place, with its content, and that nothing else is there."""
    inbox = Counter(sha256_of_file(path) for path in (folder / "inbox").rglob("*") if path.is_file())
    there = [path for path in (folder / "sorted").rglob("*") if path.is_file() and path.name != MANIFEST]
    found = Counter(sha256_of_file(path) for path in there)
    problems = [f"{sha256}: {inbox[sha256]} files, {found[sha256]} copies" for sha256 in inbox | found
                if inbox[sha256] != found[sha256]]  # fmt: skip
    targets = {(folder / "sorted" / entry.target) for entry in read_sorted(folder / "sorted" / MANIFEST)}
    problems += [f"{path} is in no line of the manifest" for path in there if path not in targets]
    problems += [f"{path} is missing" for path in targets if not path.exists()]
    return problems


def correct(process: WatchProcess) -> dict:
    """Move files about gardening to the folder of another label; return how later ones are answered."""
    inbox = process.folder / "inbox"
    taught = [inbox / f"garden {i}.txt" for i in range(12)]
    before = drop(process, {path: GARDENING[i] for i, path in enumerate(taught)})
    target = process.folder / "sorted" / CORRECTED
    moved = [entry for entry in before if entry.label != CORRECTED]
    start = time.perf_counter()
    for entry in moved[:-1]:
        shutil.move(process.folder / "sorted" / entry.target, target / Path(entry.target).name)
    wait_for(lambda: count_moved(process.folder) >= len(moved) - 1, "the corrections")
    seconds = time.perf_counter() - start
    process.kill()
    shutil.move(process.folder / "sorted" / moved[-1].target, target / Path(moved[-1].target).name)
    process.start()
    wait_for(lambda: count_moved(process.folder) >= len(moved), "the last correction")
    same = drop(process, {inbox / f"again {i}.txt": GARDENING[i] for i in range(12)})
    later = drop(process, {inbox / f"later {i}.txt": text for i, text in enumerate(GARDENING[12:])})
    unchanged = pipeline("docsplit-knn", model=str(process.folder / "model before"), device="cpu")
    without = [answer["label"] for answer in unchanged(GARDENING[12:])]
    return {
        "moved": len(moved),
        "moved_while_nothing_ran": 1,
        "seconds_until_learned": round(seconds, 1),
        "same_texts_right": sum(entry.label == CORRECTED for entry in same),
        "same_texts": len(same),
        "later_texts_right": sum(entry.label == CORRECTED for entry in later),
        "later_texts_right_without_corrections": without.count(CORRECTED),
        "later_texts": len(later),
    }


def count_moved(folder: Path) -> int:
    """How many files were moved, learned, and saved."""
    return sum(entry.reason == MOVED for entry in entries_of(folder))


def drop(process: WatchProcess, texts: dict[Path, str]) -> list:
    """Drop text files, and return their lines of the manifest."""
    for path, text in texts.items():
        path.write_text(text)
    sources = [str(path) for path in texts]
    wait_for(lambda: {entry.source for entry in entries_of(process.folder)} >= set(sources), "dropped files")
    entry_of = {entry.source: entry for entry in entries_of(process.folder)}
    return [entry_of[source] for source in sources]


def measure(process: WatchProcess) -> dict:
    """Measure the seconds from the end of resting until files are sorted, by the times of the copies."""
    texts = load_example_texts()["text"].tolist()
    inbox = process.folder / "inbox"
    single = []
    for i in range(20):
        single += drop(process, {inbox / f"single {i}.txt": f"{texts[i]} One by one."})
    burst = drop(process, {inbox / f"burst {i}.txt": f"{text} All at once, {i}." for i, text in enumerate(texts)})
    return {
        "one_by_one": spread(list(waits_of(process.folder, single))),
        "burst_of_73": spread(list(waits_of(process.folder, burst))),
    }


def waits_of(folder: Path, entries: list) -> Iterator[float]:
    """The seconds from the end of resting until a copy got its name."""
    for entry in entries:
        yield os.stat(folder / "sorted" / entry.target).st_ctime - os.stat(entry.source).st_mtime - REST


def spread(seconds: list[float]) -> dict[str, float]:
    """The median and the longest time."""
    return {"median": round(statistics.median(seconds), 2), "longest": round(max(seconds), 2)}


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LONGEST_WAIT
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {LONGEST_WAIT} seconds")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
