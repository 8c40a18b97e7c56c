"""`/api/state`, `/metrics`, `/healthz` and `/api/export`: the desk in numbers, and its cases."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from sqlalchemy import select

from expertload.desk.api.access import desk_of, needs
from expertload.desk.people import Principal
from expertload.desk.trail.export import Format, Which, export_bytes
from expertload.desk.watch import state_of

__all__ = ["router"]

router = APIRouter()
MEDIA_TYPES = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
Onlooker = Annotated[Principal, Depends(needs("manager", "auditor"))]
Anybody = Annotated[Principal, Depends(needs("reader", "arbiter", "manager", "auditor", "api"))]


@router.get("/healthz", summary="Whether the desk can work")
async def health(request: Request) -> dict[str, str]:
    """Answer after the database has answered."""
    await desk_of(request).aread(lambda transaction: transaction.connection.execute(select(1)))
    return {"status": "ok"}


@router.get("/api/state", summary="Counts, load, backlog and the promise")
async def show(request: Request, somebody: Onlooker) -> dict[str, Any]:
    """Return the state of the desk."""
    return await desk_of(request).aread(state_of)


@router.get("/metrics", summary="The same for Prometheus")
async def metrics(request: Request, somebody: Anybody) -> Response:
    """Return the counters in Prometheus' text format."""
    state = await desk_of(request).aread(state_of)
    return PlainTextResponse(_as_text(state), media_type="text/plain; version=0.0.4")


@router.get("/api/export", summary="The cases, one row each, streamed")
async def stream(
    request: Request,
    somebody: Onlooker,
    format: Format = "jsonl",  # noqa: A002 - what the interface calls it
    cases: Which = "all",
) -> Response:
    """Return all cases, those with an expert's label, or those that audit the policies."""
    lines = export_bytes(desk_of(request), format, which=cases)
    name = f'attachment; filename="desk.{format}"'
    return StreamingResponse(
        lines, media_type=MEDIA_TYPES[format], headers={"Content-Disposition": name}
    )


def _as_text(state: dict[str, Any]) -> str:
    lines = []
    for name, kind, description in _METRICS:
        value: Any = state
        for part in name.split("."):
            value = value[part] if value is not None else None
        if value is None:
            continue
        full = "expertload_desk_" + name.replace(".", "_")
        lines += [f"# HELP {full} {description}", f"# TYPE {full} {kind}", f"{full} {value}"]
    return "\n".join(lines) + "\n"


_METRICS = (
    ("counts.received", "counter", "Cases received."),
    ("counts.decided", "counter", "Cases decided automatically."),
    ("counts.answers", "counter", "Answers that count."),
    ("counts.late", "counter", "Answers that came after their lease was lost."),
    ("backlog.waiting", "gauge", "Readings that wait for a reader."),
    ("backlog.leased", "gauge", "Readings that readers hold."),
    ("backlog.disputed", "gauge", "Cases in dispute."),
    ("backlog.oldest_seconds", "gauge", "Age of the oldest waiting reading."),
    ("backlog.stuck", "gauge", "Readings due first that nobody may take."),
    ("load", "gauge", "Share of received cases that went to experts."),
    ("sampling_rate", "gauge", "Share of cases that are read blind."),
    ("monitor.evidence", "gauge", "Evidence against the promise."),
    ("monitor.audited", "gauge", "Audited decisions of the policy."),
    ("monitor.errors", "gauge", "Audited decisions that were wrong."),
    ("monitor.bound", "gauge", "Lower bound of the accuracy of automatic decisions."),
)
