"""A real server in a thread, and a client that sends a role's token."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import httpx
import uvicorn

from expertload.desk.app import LimitedProtocol


@contextlib.contextmanager
def serving(app):
    """Serve an app on a free port of the loopback; give its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="critical", lifespan="on", http=LimitedProtocol)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Caller:
    def __init__(self, world, client: httpx.Client) -> None:
        self.world, self.client = world, client

    def __call__(self, method, path, role=None, name=None, **options):
        headers = options.pop("headers", {})
        if role is not None:
            headers["Authorization"] = f"Bearer {self.world.token(name or role, role)}"
        return self.client.request(method, path, headers=headers, **options)
