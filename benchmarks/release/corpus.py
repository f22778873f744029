r"""The passages for distilling docsplit-small-en: English of several kinds, from public repositories.

    python -m benchmarks.release.corpus output/corpus.jsonl --clones output/clones --exclude evaluation/*.jsonl

It clones the repositories (700 MB), unless they are there. A passage is one or more whole sentences, one per line, of
10 to 220 words: many short, few long. Passages with 13 consecutive words of an excluded text are left out, and counted.
"""

import argparse
import gzip
import html
import io
import itertools
import json
import lzma
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm

from docsplit_hf import load_package_documentation

SHORTEST = 10  # words of a passage
LONGEST = 220
SHINGLE = 13  # consecutive words that count as a copy
COMMON = frozenset("the of and to a in is that for it as was with be by on not he his this are or from at you".split())
LEAST_COMMON = 0.15  # share of the words in COMMON, in English text
# Of each repository: the commit, a pattern of its text files, and the most passages that are taken.
REPOSITORIES = {
    "ZhouYii/PatchedDistro": ("961716d8a5a0df1a6373a4d61e360a0b5d1b85cd", r"^data/A./wiki_", 1_000_000),
    "staeiou/arxiv_archive": ("f043eb1d71da6ed2fb9eac63ab8707359ff606ea", r"20200101/per_category/.*\.xz$", 300_000),
    "OpenTermsArchive/contrib-versions": ("d6fb386efcd5ef42d33090dfaf21d7b2cc748246", r"", 60_000),
    "LexPredict/lexpredict-contraxsuite-samples": (
        "2e01728e21e2ba8181e6cdb25c180dc29d311449",
        r"^agreements/",
        100_000,
    ),
    "MichaelPaulukonis/common-corpus": ("717d3f32e7a5d2daa25e93e01de36fbbb9890386", r"^corpus/.*\.txt$", 200_000),
}


def files(repository: str, clones: Path) -> Iterator[tuple[str, bytes]]:
    """The text files of a repository, names and contents, in random order."""
    commit, pattern, _ = REPOSITORIES[repository]
    folder = clones / repository.partition("/")[2]
    if not folder.exists():
        subprocess.run(["git", "clone", "--quiet", f"https://github.com/{repository}", str(folder)], check=True)
    git = ["git", "-C", str(folder)]
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", "--name-only", commit], check=True, capture_output=True)
    names = [name for name in listed.stdout.decode().split("\0") if name and re.search(pattern, name)]
    random.Random(0).shuffle(names)
    for name in names:
        shown = subprocess.run([*git, "show", f"{commit}:{name}"], capture_output=True)
        if shown.returncode == 0:  # else a partial clone lacks it
            yield name, shown.stdout


def documents(name: str, content: bytes) -> Iterator[str]:
    """The documents in a file."""
    if name.endswith(".xz"):
        rows = pd.read_csv(io.BytesIO(lzma.decompress(content)), sep="\t", usecols=["title", "abstract"], dtype=str)
        for title, abstract in rows.dropna().itertuples(index=False):
            yield " ".join(f"{title}. {abstract}".split())
        return
    text = content.decode("utf-8", errors="ignore")
    if "wiki_" not in name:
        yield re.sub(r"<[^>]{1,200}>|\[([^\]]*)\]\([^)]*\)", r"\1", text)
        return
    for article in re.findall(r"<doc [^>]*>\n(.*?)</doc>", text, flags=re.DOTALL):
        yield re.sub(r"<[^>]{1,200}>|\( *\)", "", html.unescape(article).partition("\n")[2])


def passages(document: str, rng: random.Random) -> Iterator[str]:
    """Split a document into passages of whole sentences, each with a random length."""
    held = []
    words = 0
    wanted = 0
    for paragraph in re.split(r"\n\s*\n|\n(?=[A-Z#*-])", document):
        for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z\"'(])", " ".join(paragraph.split())):
            count = len(sentence.split())
            if not 0 < count <= LONGEST:
                continue
            if held and words + count > wanted:
                yield "\n".join(held)
                held = []
                words = 0
            if not held:
                wanted = SHORTEST * (LONGEST / SHORTEST) ** rng.random()
            held.append(sentence)
            words += count
    if held:
        yield "\n".join(held)


def shingles(text: str) -> Iterator[int]:
    """A hash of each 13 consecutive words."""
    words = re.findall(r"\w+", text.lower())
    return (hash(" ".join(words[i : i + SHINGLE])) for i in range(len(words) - SHINGLE + 1))


def is_english(text: str) -> bool:
    """Whether enough words are common English ones, and most characters are letters."""
    words = text.lower().split()
    letters = sum(character.isascii() and character.isalpha() for character in text)
    common = sum(word in COMMON for word in words)
    return len(words) >= SHORTEST and letters > 0.65 * len(text) and common > LEAST_COMMON * len(words)


def read_texts(path: Path) -> Iterator[str]:
    """All strings of a .jsonl file."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield from (value for value in json.loads(line).values() if isinstance(value, str))


def sources(clones: Path) -> Iterator[tuple[str, int, Iterable[str]]]:
    """Each source: its name, the most passages that are taken, and its documents."""
    for repository, (_, _, most) in REPOSITORIES.items():
        in_files = (documents(name, content) for name, content in files(repository, clones))
        yield repository, most, itertools.chain.from_iterable(in_files)
    yield "documentation of Python packages", 30_000, load_package_documentation(test_size=100)["train"]["text"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="The .jsonl file to write: text and source.")
    parser.add_argument("--clones", type=Path, required=True, help="Where the repositories are, or are cloned to.")
    parser.add_argument("--exclude", type=Path, nargs="*", default=[], help=".jsonl files of texts to evaluate on.")
    options = parser.parse_args()
    excluded = {shingle for path in options.exclude for text in read_texts(path) for shingle in shingles(text)}
    print(f"{len(excluded):,} times {SHINGLE} words in a row of {len(options.exclude)} files are to be excluded.")
    rng = random.Random(0)
    taken = {}
    counts = Counter()
    for source, most, texts in sources(options.clones):
        kept = 0
        for text in tqdm(texts, desc=source):
            for passage in passages(text, rng):
                found = hash(passage)
                if not is_english(passage):
                    counts[source, "not English prose"] += 1
                elif found in taken:
                    counts[source, "twice"] += 1
                elif not excluded.isdisjoint(shingles(passage)):
                    counts[source, "excluded"] += 1
                else:
                    taken[found] = (source, passage)
                    kept += 1
            if kept >= most:
                break
        counts[source, "kept"] = kept
    rows = list(taken.values())
    rng.shuffle(rows)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", encoding="utf-8") as file:
        for source, passage in rows:
            file.write(json.dumps({"text": passage, "source": source}, ensure_ascii=False) + "\n")
    print(pd.Series(counts).unstack(fill_value=0).to_string())
    print(f"{len(rows):,} passages in {options.output}")


if __name__ == "__main__":
    main()
