"""A registry on this machine that wants a login: the pull half of the distribution specification."""

import base64
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ..image_archives import sha256

LOGIN = base64.b64encode(b"me:secret").decode()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        kind, _, name = self.path.removeprefix("/v2/team/demo/").partition("/")
        data = server.manifests.get(name) if kind == "manifests" else server.blobs.get(name)
        if self.headers["Authorization"] != f"Basic {LOGIN}":
            return self.answer(401, **{"WWW-Authenticate": 'Basic realm="here"'})
        if self.path == "/v2/":
            return self.answer(200)
        if data is None:
            return self.answer(404)
        server.asked.append(name)
        kinds = {"Content-Type": json.loads(data).get("mediaType", "")} if kind == "manifests" else {}
        return self.answer(200, data, **kinds)

    do_HEAD = do_GET

    def answer(self, code, data=b"", **headers):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            half = len(data) // 2
            self.wfile.write(data[:half])
            if len(data) > self.server.holds_above:
                self.server.reached.set()
                self.server.going_on.wait()
            with contextlib.suppress(OSError):
                self.wfile.write(data[half:])

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def registry(layout):
    """One that has the images of an OCI layout, by their names, as tags of `team/demo`.

    `holds_above` makes it stop in the middle of longer pieces until `going_on`; `reached` says that it did.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads, server.block_on_close = True, False
    server.blobs = {f"sha256:{path.name}": path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}
    server.manifests = {}
    for entry in json.loads((layout / "index.json").read_text())["manifests"]:
        manifest = json.dumps(json.loads(server.blobs[entry["digest"]]) | {"mediaType": entry["mediaType"]}).encode()
        server.manifests[entry["annotations"]["org.opencontainers.image.ref.name"]] = manifest
        server.manifests[sha256(manifest)] = manifest
    server.asked, server.holds_above = [], float("inf")
    server.reached, server.going_on = threading.Event(), threading.Event()
    server.name = f"127.0.0.1:{server.server_port}/team/demo"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.going_on.set()
        server.shutdown()
        server.server_close()
