"""Answer, explain, reject, read a PDF and serve in a process that has only what requirements-light.txt installs.

    python tests/end_to_end/light.py CLASSIFIER TEXT FOLDER_WITH_A_PDF PORT

It prints the answers as JSON.
"""

import contextlib
import importlib.machinery
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from pathlib import Path

MISSING = ("torch", "transformers", "datasets", "pandas", "pyarrow", "scipy", "sklearn", "faiss", "accelerate")


class Finder(importlib.machinery.PathFinder):
    """Finds modules as if these libraries were not installed."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = name.split(".")[0] in MISSING
        return None if missing else importlib.machinery.PathFinder.find_spec(name, path, target)


def run_command(*words):
    """Run the command docsplit in this process."""
    from docsplit_hf.__main__ import main

    sys.argv = ["docsplit", *words]
    main()


def ask(port, body):
    """Ask a server in this process until it answers, and then stop it."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/classify", data, {"Content-Type": "application/json"})
    try:
        for _ in range(600):
            try:
                answers.append(json.load(urllib.request.urlopen(request, timeout=60))["answers"][0])
                return
            except urllib.error.HTTPError as error:
                print(error.read(), file=sys.stderr)
                return
            except OSError:  # it has not started yet
                time.sleep(0.1)
    finally:
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.meta_path = [Finder if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
    folder, text, files, port = sys.argv[1:]
    from docsplit_hf import ExportedClassifier

    classify = ExportedClassifier(folder)
    answers = [classify(text, explain=True, return_neighbors=1)[0], classify([text], reject=0.4)[0]]
    answers += classify(Path(files))
    table = Path(files).parent / "texts.csv"
    table.write_text(f'text\n"{text}"\n', encoding="utf-8")
    found = table.with_name("found.jsonl")
    with contextlib.redirect_stdout(sys.stderr):
        with contextlib.suppress(SystemExit):
            run_command("classify", "--model", folder, "--predict", str(table), "--predict_output", str(found))
        threading.Thread(target=ask, args=(port, {"text": text, "explain": True})).start()
        with contextlib.suppress(KeyboardInterrupt):
            run_command("serve", folder, "--port", port)
    answers.append(json.loads(found.read_text(encoding="utf-8")))
    assert not set(MISSING) & {name.split(".")[0] for name in sys.modules}
    print(json.dumps(answers))
