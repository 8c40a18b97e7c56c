"""Takes pictures of the desk's pages: desktop and phone, light and dark.

    python -m tools.desk_pictures OUT          every page
    python -m tools.desk_pictures --docs       those in docs/images

The desk is filled by the demo's day: experts' answers teach a second network, and the load falls.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from expertload.desk import Desk
from expertload.desk.demo import DEMO_RULES, N_CASES, TARGET_ACCURACY, Round, play, prepare, train
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import receive
from expertload.desk.people.accounts import find_user
from expertload.desk.people.sessions import begin_session
from expertload.desk.queue.claims import claim
from expertload.desk.trail.chain import seal_events

SIZES = {"desktop": (1280, 860), "phone": (360, 780)}
PAGES = {
    "sign_in": "/sign-in",
    "review": "/review",
    "overview": "/manage",
    "policies": "/manage/policies",
    "cases": "/manage/cases?key=left-000001",
    "readers": "/manage/readers",
    "challengers": "/manage/challengers",
    "answers": "/review/answers",
    "people": "/manage/people",
    "audit": "/audit",
    "account": "/account",
}
DOCS = Path(__file__).parents[1] / "docs" / "images"


def fill(desk: Desk) -> list[Round]:
    """Play the demo's day; some cases are left for the next reader."""
    digits = train()
    _, colleagues = prepare(desk, digits)
    played = list(play(desk, digits, colleagues))
    left = islice(played[-1].digits.cases(run="left", first=N_CASES), 40)
    desk.write(receive, [read_case(case) for case, _ in left])
    seal_events(desk)
    return played


def draw(played: list[Round], out: Path) -> None:
    """Draw the load and the accuracy of automatic decisions, round by round."""
    from matplotlib import pyplot as plt

    at_once = N_CASES // len(played)
    ends = np.arange(1, len(played) + 1) * at_once
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8, 4.2), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    above.bar(
        ends - at_once / 2, [100 * each.load for each in played], at_once * 0.86, color="#12607f"
    )
    above.set(ylabel="read by experts (%)", ylim=(0, 100))
    right = np.cumsum([each.right * (1 - each.load) for each in played])
    decided = np.cumsum([1 - each.load for each in played])
    below.plot(ends, 100 * right / decided, color="#12607f")
    below.axhline(100 * TARGET_ACCURACY, color="#a33a1f", linestyle="--", linewidth=1)
    promise = below.text(N_CASES, 100 * TARGET_ACCURACY - 0.3, "promised", ha="right", va="top")
    promise.set(color="#a33a1f", fontsize=8)
    below.set(ylabel="decisions\nright (%)", ylim=(92, 100.3), xlabel="cases")
    notes = ("answers teach\na second network", "confirmed:\ndecides 30 %", "decides\nall")
    told = (end for end, each in zip(ends, played, strict=True) if each.news)
    for place, note, side in zip(told, notes, ("right", "right", "left"), strict=False):
        above.axvline(place, color="#59656e", linewidth=0.8)
        above.text(place + (-6 if side == "right" else 6), 98, note, fontsize=8, va="top", ha=side)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=160)


@contextmanager
def served(desk: Desk) -> Iterator[str]:
    """Serve a desk on a free port."""
    import uvicorn

    from expertload.desk.app import create_app

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(desk), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()


def photograph(
    desk: Desk, out: Path, pages: dict[str, str], sizes: dict[str, tuple[int, int]], themes: Any
) -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    you = desk.read(find_user, "you")
    if you is None:
        raise RuntimeError("the desk is not filled")
    secret = desk.write(begin_session, you.id)
    desk.write(claim, you.id, arbiter=True)
    with served(desk) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for size, (width, height) in sizes.items():
            for theme in themes:
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme
                )
                cookie = f"desk-{address.rpartition(':')[2]}"
                context.add_cookies([{"name": cookie, "value": secret, "url": address}])
                page = context.new_page()
                for name, path in pages.items():
                    page.goto(address + path)
                    page.wait_for_load_state("networkidle")
                    whole = "docs" not in out.parts and (name != "review" or size == "phone")
                    page.screenshot(path=out / f"{name}-{size}-{theme}.png", full_page=whole)
                context.close()
        browser.close()


def main() -> None:
    """Fill a desk and take pictures of it."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder, Desk.open(folder, rules=DEMO_RULES) as desk:
        played = fill(desk)
        if "--docs" in sys.argv:
            draw(played, DOCS / "desk_rounds.png")
            pages = {"desk_review": "/review", "desk_overview": "/manage"}
            photograph(desk, DOCS, pages, {"desktop": (1280, 1160)}, ["light"])
            for name in pages:
                (DOCS / f"{name}-desktop-light.png").rename(DOCS / f"{name}.png")
        else:
            out = Path(sys.argv[1])
            out.mkdir(parents=True, exist_ok=True)
            photograph(desk, out, PAGES, SIZES, ["light", "dark"])


if __name__ == "__main__":
    main()
