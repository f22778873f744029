"""Other host names and other sites are refused: real requests with forged headers, and a real browser."""

import http.client
import http.server
import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

from docsplit_hf.apps.own_site_only import OwnSiteOnly, checked_host, host_and_port

from .conftest import PROXY_NAME

FORM = {"Content-Type": "multipart/form-data; boundary=x"}
UPLOAD = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.csv"\r\n\r\ntext\r\nplanted\r\n--x--\r\n'
JOIN = json.dumps({"data": [], "fn_index": 0, "session_hash": "evil"}).encode()
ENDPOINTS = {  # requests that another site can send without a preflight, and the pages themselves
    "page": ("GET", "/", {}, None),
    "config": ("GET", "/config", {}, None),
    "info": ("GET", "/gradio_api/info", {}, None),
    "file": ("GET", "/gradio_api/file=/etc/hostname", {}, None),
    "upload": ("POST", "/gradio_api/upload", FORM, UPLOAD),
    "join": ("POST", "/gradio_api/queue/join", {"Content-Type": "text/plain"}, JOIN),
    "events": ("GET", "/gradio_api/queue/data?session_hash=evil", {"Accept": "text/event-stream"}, None),
    "heartbeat": ("GET", "/gradio_api/heartbeat/evil", {}, None),
}
endpoints = pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)


def planted(folder, content):
    """Files of a server with this content."""
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def port_of(address):
    """The port of a server on this machine."""
    return urlsplit(address).port


def ask(address, endpoint, **headers):
    """Send a request, with the right ``Host`` unless another is given; return status and error message."""
    method, path, own, body = endpoint
    connection = http.client.HTTPConnection("127.0.0.1", port_of(address), timeout=60)
    try:
        connection.request(method, path, body, own | {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode() if answer.status >= 400 else ""
    finally:
        connection.close()


@endpoints
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7860", "localhost.evil.example", "192.168.0.9", "0.0.0.0"]
)
def test_another_host_name_is_refused(address, endpoint, host):
    status, said = ask(address, endpoint, Host=host)
    assert status == 421 and f"does not answer to the host name {host!r}" in said and "--allowed_hosts" in said


@endpoints
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "file://", "", "https://127.0.0.1"],
)
def test_a_page_of_another_site_is_refused(address, endpoint, origin):
    status, said = ask(address, endpoint, Origin=origin)
    assert status == 403 and f"requests that come from {origin!r}" in said


@endpoints
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_cross_site_requests_without_an_origin_are_refused(address, endpoint, site):
    assert ask(address, endpoint, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0] == 403


def test_the_page_itself_programs_and_tunnels_are_answered(address):
    port = port_of(address)
    page = ENDPOINTS["page"]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", "localhost:9999"):
        assert ask(address, page, Host=host) == (200, ""), host
        assert ask(address, page, Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin") == (200, "")
    assert ask(address, page, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate") == (200, "")  # a link is followed
    assert ask(address, ENDPOINTS["upload"])[0] == 200


def test_a_proxy_is_answered_by_its_allowed_name(address):
    page = ENDPOINTS["page"]
    assert ask(address, page, Host=PROXY_NAME, Origin=f"https://{PROXY_NAME}") == (200, "")
    assert ask(address, page, Origin=f"https://{PROXY_NAME}") == (200, "")  # which passes on another Host
    assert ask(address, page, Origin=f"https://{PROXY_NAME}:444")[0] == 403
    assert ask(address, page, Host=f"x.{PROXY_NAME}")[0] == 421


def test_an_upload_from_another_site_is_not_written(address, server_folder):
    assert ask(address, ENDPOINTS["upload"])[0] == 200
    before = planted(server_folder, b"planted")
    assert before  # so it would be seen
    method, path, own, body = ENDPOINTS["upload"]
    attack = (method, path, own, body.replace(b"planted", b"planted by another site"))
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        assert ask(address, attack, **headers)[0] in (403, 421)
    assert planted(server_folder, b"planted") == before


@pytest.mark.parametrize(
    "lines",
    [
        ["GET /config HTTP/1.0"],
        ["GET /config HTTP/1.1", "Host: localhost", "Host: evil.example"],
        ["GET /config HTTP/1.1", "Host: evil@localhost"],
        ["GET /config HTTP/1.1", "Host: localhost", "Origin: http://localhost", "Origin: http://evil.example"],
        ["GET /x HTTP/1.1", "Host: evil.example", "Upgrade: websocket", "Connection: Upgrade",
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"],
    ],
)  # fmt: skip
def test_repeated_missing_and_malformed_headers_are_refused(address, lines):
    with socket.create_connection(("127.0.0.1", port_of(address)), timeout=60) as sent:
        sent.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        status = int(sent.makefile("rb").readline().split()[1])
    assert status in (400, 403, 421)


def test_hosts_are_parsed_as_browsers_write_them():
    assert host_and_port("[::1]:7860") == ("::1", 7860) and host_and_port("LocalHost") == ("localhost", None)
    for text in ("", "a b", "x@localhost", "localhost:port", "http://localhost", "localhost/a", "[::1"):
        assert host_and_port(text) is None, text
    assert checked_host("::1") == ("::1", None)
    with pytest.raises(ValueError, match="'https://a.org/' is not a host name: write it as docs.example.org"):
        checked_host("https://a.org/")


def test_accepted_host_names_depend_on_the_servers_host():
    from starlette.datastructures import Headers

    def answers(host, **options):
        return OwnSiteOnly(None, **options).refusal("GET", Headers({"host": host})) is None

    assert answers("192.168.0.9:7860", server_host="0.0.0.0") and answers(socket.gethostname(), server_host="0.0.0.0")
    assert not answers("evil.example", server_host="0.0.0.0")
    assert answers("box.lan", server_host="box.lan") and not answers("192.168.0.9", server_host="box.lan")
    assert answers("evil.example", allowed_hosts=["*"])  # a public server
    foreign = Headers({"host": "a.hf.space", "origin": "https://evil.example"})
    assert OwnSiteOnly(None, allowed_hosts=["*"]).refusal("POST", foreign)[0] == 403


ATTACK = """<script>
async function attack(server) {
  const done = {};
  const form = new FormData(); form.append("files", new Blob(["text\\nplanted by a page"]), "a.csv");
  const asked = {
    read: [`${server}/config`], upload: [`${server}/gradio_api/upload`, {method: "POST", body: form}],
    blind: [`${server}/gradio_api/upload`, {method: "POST", body: form, mode: "no-cors"}],
    join: [`${server}/gradio_api/queue/join`, {method: "POST", body: "{}"}],
  };
  for (const [name, given] of Object.entries(asked))
    done[name] = await fetch(...given).then(
      async (got) => got.type === "opaque" ? "opaque" : `${got.status} ${await got.text()}`, () => "blocked");
  return done;
}
</script>"""


@pytest.fixture
def other_site():
    """A site of somebody else, on another port of this machine."""

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK.encode())

        def log_message(self, *_):
            pass

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    yield site.server_port
    site.shutdown()
    site.server_close()


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_browser_another_site_and_a_rebound_name_read_and_upload_nothing(
    new_browser, address, server_folder, other_site
):
    port = port_of(address)
    browser = new_browser("--host-resolver-rules=MAP *.example 127.0.0.1")  # as an attacker's DNS answers
    for site in (f"http://evil.example:{other_site}", f"http://127.0.0.1:{other_site}"):
        page = browser.new_page()
        page.goto(site)
        for server in (address, f"http://rebound.example:{port}"):
            found = page.evaluate("server => attack(server)", server)
            assert found.pop("blind") in ("opaque", "blocked")
            assert all(one == "blocked" or one[:3] in ("403", "421") for one in found.values()), found
    page = browser.new_page()
    assert page.goto(f"http://rebound.example:{port}/").status == 421
    assert "does not answer to the host name" in page.inner_text("body")
    assert not [
        path for path in server_folder.rglob("*") if path.is_file() and b"planted by a page" in path.read_bytes()
    ]
