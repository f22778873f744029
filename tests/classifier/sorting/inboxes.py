"""Files to sort, with their answers."""

import os

LABELS = ["invoice", "a/b", "..", "Lease", None]


def make_files(folder, count=12):
    """Files in two folders with the same names, and their answers; every sixth is unsure, one is unreadable."""
    paths = {}
    answers = []
    for i in range(count):
        path = folder / f"in{i % 2}" / f"scan {i // 2}.pdf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"content {i}".encode() * (i + 1))
        os.utime(path, (1e9 + i, 1e9 + i))
        name = path.relative_to(folder).as_posix()
        paths[name] = path
        score = None if i == 7 else round(0.5 + i / 100, 3)
        label = None if i == 7 else LABELS[i % 5]
        reason = "encrypted" if i == 7 else None
        answers.append({"file": name, "label": label, "score": score, "page": str(i + 1), "reason": reason})
    return answers, list(paths.values())


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
