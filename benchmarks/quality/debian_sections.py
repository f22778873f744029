"""Make a task of eight unequal classes: sections of Debian packages, to be predicted from their descriptions.

    python -m benchmarks.quality.debian_sections data/debian

It reads the package lists of this machine's apt, with the English descriptions, which it downloads into the folder
(``apt-get update`` with lists of its own: nothing of the machine is changed, and root is not needed). The folder gets
``train.jsonl`` and ``test.jsonl`` (text, label), as the other benchmarks take them. Of the packages made from one
source, one is kept: the others have nearly the same description. A text is the short description and the long one,
at most 1,500 characters.
"""

import argparse
import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SECTIONS = ("net", "science", "admin", "games", "sound", "graphics", "mail", "editors")
LONGEST = 1_500  # characters of a text: few are longer
TEST_SHARE = 0.6
PACKAGES_AT_ONCE = 2_000  # the names of so many fit into a command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Where the task is written.")
    options = parser.parse_args()
    lists = options.folder.resolve() / "apt"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    apt(lists, "apt-get", "update", "--quiet")
    rows = described_packages(lists)
    random.Random(0).shuffle(rows)
    test_size = round(TEST_SHARE * len(rows))
    for name, part in (("test", rows[:test_size]), ("train", rows[test_size:])):
        lines = [json.dumps(row, ensure_ascii=False) for row in part]
        (options.folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(name, len(part), dict(Counter(row["label"] for row in part).most_common()))


def apt(lists: Path, *command: str) -> str:
    """The output of a command of apt, with lists of packages and English descriptions in a folder of ours."""
    options = {
        "Acquire::Languages": "en",
        "Dir::State::lists": str(lists),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    done = subprocess.run([*command, *given], check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout


def described_packages(lists: Path) -> list[dict[str, str]]:
    """The text and the label of one package of each source in the sections, in the order of their names."""
    sections = {stanza["Package"]: stanza.get("Section") for stanza in stanzas(apt(lists, "apt-cache", "dumpavail"))}
    names = sorted(name for name, section in sections.items() if section in SECTIONS)
    rows: dict[str, dict[str, str]] = {}  # by source
    texts = set()
    for start in range(0, len(names), PACKAGES_AT_ONCE):
        shown = apt(lists, "apt-cache", "show", "--no-all-versions", *names[start : start + PACKAGES_AT_ONCE])
        for stanza in stanzas(shown):
            source = stanza.get("Source", stanza["Package"]).split()[0]
            text = stanza.get("Description-en", "")[:LONGEST]
            if source not in rows and "\n" in text and text not in texts:
                rows[source] = {"text": text, "label": stanza["Section"]}
                texts.add(text)
    return list(rows.values())


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """The fields of each package. Lines that go on lose their indentation; a dot alone is an empty line."""
    for block in text.strip().split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith(" "):
                fields[name] += "\n" + ("" if line == " ." else line.strip())
            else:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        yield fields


if __name__ == "__main__":
    main()
