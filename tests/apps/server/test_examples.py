"""The container files and the unit of systemd name options that exist, and a user without rights."""

import json
import re
import shlex
from pathlib import Path

import yaml

from docsplit_hf.apps.cli.serve import make_parser

FOLDER = Path(__file__).parents[3] / "examples" / "serving"


def test_container_file():
    content = (FOLDER / "Dockerfile").read_text()
    command = json.loads(re.search(r"^ENTRYPOINT (.*)$", content, re.MULTILINE)[1])
    command += json.loads(re.search(r"^CMD (\[.*)$", content, re.MULTILINE)[1])
    options = make_parser().parse_args(command[2:])
    assert (command[:2], options.host) == (["docsplit", "serve"], "0.0.0.0")
    assert re.search(r"^USER [1-9]\d*$", content, re.MULTILINE)
    assert {"light", "full"} <= set(re.findall(r"^FROM base AS (\w+)$", content, re.MULTILINE))


def test_compose_file():
    """Both services have no rights and write into what is mounted alone; their targets are in the container file."""
    services = yaml.safe_load((FOLDER / "compose.yml").read_text())["services"]
    assert sorted(services) == ["serve", "watch"]
    for service in services.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] != "0"
        assert service["security_opt"] == ["no-new-privileges"] and service["tmpfs"] == ["/tmp"]
        assert f"FROM base AS {service['build']['target']}\n" in (FOLDER / "Dockerfile").read_text()
    assert services["serve"]["ports"] == ["127.0.0.1:8000:8000"]
    assert services["watch"]["command"][0] == "watch" and services["watch"]["network_mode"] == "none"


def test_unit_of_systemd():
    content = (FOLDER / "docsplit-serve.service").read_text().replace("\\\n", " ")
    command = shlex.split(re.search(r"^ExecStart=(.*)$", content, re.MULTILINE)[1])
    options = make_parser().parse_args(command[2:])
    assert (command[1], options.host) == ("serve", "127.0.0.1")
    assert options.token_file.endswith("/tokens")
    assert "DynamicUser=yes" in content
    assert "NoNewPrivileges=yes" in content
