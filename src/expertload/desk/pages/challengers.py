"""The page of models in shadow: their evidence over time, and the steps to take over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Form, Request, Response

from expertload._typing import FloatArray
from expertload.desk.api.access import desk_of
from expertload.desk.pages.overview import MOST_POINTS, WIDE
from expertload.desk.pages.page import PageRoute, go, number, render
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.watch.anew import decide_all_waiting
from expertload.desk.watch.challengers import Challenger, adopt, challengers_of
from expertload.report.scale import Tick, round_ticks

router = APIRouter(prefix="/manage/challengers", route_class=PageRoute)
STEPS = (0.1, 0.5, 1.0)
Share = Annotated[float, Form(ge=0, le=1)]
NOTICES = {
    "shared": "The model decides this share of the cases from now on.",
    "switched": "The model decides every case that it is sure of from now on.",
    "back": "The model decides nothing any more.",
}


@router.get("", dependencies=[Depends(signed_in("manager", "auditor"))])
async def show(request: Request, notice: str = "", n: int = 0) -> Response:
    """Show every model in shadow."""
    found = await desk_of(request).aread(challengers_of)
    said = NOTICES.get(notice, "")
    if said and n > 0:
        said += f" {number(n)} waiting {'case was' if n == 1 else 'cases were'} decided anew."
    views = [{"it": each, "chart": chart_of(each), "steps": _steps(each)} for each in found]
    return render(request, "challengers.html.j2", challengers=views, notice=said)


@router.post("/adopt", dependencies=[Depends(signed_in("manager"))])
async def change(
    request: Request,
    model: Annotated[str, Form(max_length=200)],
    share: Share,
    seen: Share,
) -> Response:
    """Let a model decide a share of the cases; 0 is the way back."""
    desk = desk_of(request)
    await desk.awrite(adopt, model, share, seen=seen)
    decided = await asyncio.to_thread(decide_all_waiting, desk)
    notice = "back" if share == 0 else "switched" if share == 1 else "shared"
    return go(f"/manage/challengers?notice={notice}&n={decided}")


def _steps(challenger: Challenger) -> list[float]:
    """Return the shares that a manager may choose next."""
    if challenger.share == 0 and not challenger.may_switch:
        return []
    return [share for share in STEPS if share > challenger.share]


def chart_of(challenger: Challenger) -> dict[str, Any] | None:
    """Draw the evidence that the promise is kept after each case read, on a logarithmic scale."""
    monitor = challenger.monitor
    if monitor is None or monitor.n_read < 2:
        return None
    path, needed = np.asarray(monitor.history()), monitor.needed_evidence
    at = np.unique(np.linspace(0, len(path) - 1, min(len(path), MOST_POINTS)).astype(int))
    top = float(np.log10(needed)) * 1.25
    heights: FloatArray = np.clip(np.log10(np.maximum(path[at], 1.0)), 0, top)
    frame = replace(WIDE, x_range=(1.0, float(len(path))), y_range=(0.0, top))
    levels = [v for v in (1.0, 2.0, 5.0, 10.0, 50.0, 100.0) if np.log10(v) < top] + [needed]
    return {
        "frame": frame,
        "x_ticks": [
            Tick(float(frame.x(v)), number(v)) for v in round_ticks(1, len(path), 5) if v >= 1
        ],
        "y_ticks": [Tick(float(frame.y(np.log10(v))), f"{v:.3g}") for v in levels],
        "path": frame.path((at + 1).astype(float), heights),
        "needed": float(frame.y(np.log10(needed))),
    }
