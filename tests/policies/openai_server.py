"""A server that speaks OpenAI's chat protocol, on a real port of this machine."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answers(ThreadingHTTPServer):
    """Answers with the next of `script`, the last one for ever: a message as a dict, or (status, error as a dict).

    Attributes:
        requests: (path, authorization, body) of each call, oldest first.
    """

    daemon_threads = True

    def __init__(self, script, finish="stop", delay_s=0.0):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.finish, self.delay_s = list(script), finish, delay_s
        self.requests = []

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """A client that did not wait is not worth a traceback (whose printing, in this thread, would disturb `ast` in
        Python 3.11); a test that misses its answer fails by itself."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.requests.append((self.path, self.headers.get("authorization"), body))
        answer = server.script.pop(0) if len(server.script) > 1 else server.script[0]
        time.sleep(server.delay_s)
        if isinstance(answer, tuple):
            self.reply(answer[0], {"error": answer[1]})
            return
        choice = {"index": 0, "finish_reason": server.finish, "message": {"role": "assistant", **answer}}
        usage = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37}
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        self.reply(200, head | {"choices": [choice], "usage": usage})

    def reply(self, status, data):
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@contextmanager
def openai_server(*script, **settings):
    server = Answers(script, **settings)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
