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
        self.kind = None  # "truncate" or "corrupt"
        self.announces_length = True
        self.seconds_a_block = 0.0
        self.status = 200
        self.requests = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file"

    def handle_error(self, request, client_address):
        pass  # clients that are killed hang up


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests += 1
        fault = server.kind if server.faults > 0 else None
        server.faults -= 1
        body = server.content if server.status == 200 else b""
        if fault == "corrupt":
            body = bytes(len(body))
        self.send_response(server.status)
        if server.announces_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "truncate":
            body = body[: len(body) // 2]
        for position in range(0, len(body), 4096):
            self.wfile.write(body[position : position + 4096])
            time.sleep(server.seconds_a_block)

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
