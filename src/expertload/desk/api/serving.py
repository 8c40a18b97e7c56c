"""The application on a port, until somebody ends it."""

from __future__ import annotations

import gc

from fastapi import FastAPI

__all__ = ["serve"]

# A batch of cases is a hundred thousand small objects that live for a moment; looking through all
# of them for circles after every 700 costs a fifth of the batch.
OBJECTS_BETWEEN_COLLECTIONS = 200_000


def serve(app: FastAPI, *, host: str, port: int) -> None:
    """Serve an application; what is under way when it ends is finished."""
    import uvicorn

    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked through
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )
