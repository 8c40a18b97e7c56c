"""A web server on this machine that misbehaves as it is told."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MisbehavingServer(ThreadingHTTPServer):
    """Serves `content`; what goes wrong is set by attributes, how often by `faults`."""

    daemon_threads = True

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.faults = 0  # requests still to be spoilt
        self.kind = None  # "truncate", "unavailable", "corrupt", "wrong range"
        self.honours_range = True
        self.announces_length = True
        self.seconds_a_block = 0.0
        self.retry_after = None
        self.status = 200
        self.ranges = []  # the Range header of each request

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file"

    def handle_error(self, request, client_address):
        pass  # clients that are killed hang up


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        fault = server.kind if server.faults > 0 else None
        server.faults -= 1
        if server.status != 200 or fault == "unavailable":
            return self._refuse(server.status if server.status != 200 else 503)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if not server.honours_range:
            asked, start = None, 0
        if asked and start >= len(server.content):
            return self._refuse(416)
        body = server.content[start:]
        if fault == "corrupt":
            body = bytes(len(body))
        return self._answer(body, start if asked else None, fault)

    def _refuse(self, code):
        self.send_response(code)
        if self.server.retry_after is not None:
            self.send_header("Retry-After", self.server.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, body, start, fault):
        total = len(self.server.content)
        self.send_response(200 if start is None else 206)
        if start is not None:
            begin = start + 1 if fault == "wrong range" else start
            self.send_header("Content-Range", f"bytes {begin}-{total - 1}/{total}")
        if self.server.announces_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "truncate":
            body = body[: len(body) // 2]
        for position in range(0, len(body), 4096):
            self.wfile.write(body[position : position + 4096])
            time.sleep(self.server.seconds_a_block)

    def log_message(self, *_):
        pass


@contextmanager
def misbehaving_server(content):
    server = MisbehavingServer(content)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
