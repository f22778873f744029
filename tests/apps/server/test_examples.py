"""The container file and the unit of systemd name options that exist, and a user without rights."""

import json
import re
import shlex
from pathlib import Path

from docsplit_hf.apps.cli.serve import make_parser

FOLDER = Path(__file__).parents[3] / "examples" / "serving"


def test_container_file():
    content = (FOLDER / "Dockerfile").read_text()
    command = json.loads(re.search(r"^ENTRYPOINT (.*)$", content, re.MULTILINE)[1])
    folders = json.loads(re.search(r"^CMD (\[.*)$", content, re.MULTILINE)[1])
    options = make_parser().parse_args([*command[2:], *folders])
    assert (command[:2], options.host) == (["docsplit", "serve"], "0.0.0.0")
    assert re.search(r"^USER [1-9]\d*$", content, re.MULTILINE)


def test_unit_of_systemd():
    content = (FOLDER / "docsplit-serve.service").read_text().replace("\\\n", " ")
    command = shlex.split(re.search(r"^ExecStart=(.*)$", content, re.MULTILINE)[1])
    options = make_parser().parse_args(command[2:])
    assert (command[1], options.host) == ("serve", "127.0.0.1")
    assert options.token_file.endswith("/tokens")
    assert "DynamicUser=yes" in content
    assert "NoNewPrivileges=yes" in content
