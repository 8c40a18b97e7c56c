"""Takes pictures of the desk's pages: desktop and phone, light and dark.

    python -m tools.desk_pictures OUT          every page
    python -m tools.desk_pictures --docs       the two in docs/images

The desk is filled with half a day of digits by a sender, two readers and an arbiter, who know the
true labels.
"""

from __future__ import annotations

import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from expertload.desk import Desk
from expertload.desk.demo import DEMO_RULES, prepare, train
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import receive
from expertload.desk.people.accounts import add_user, find_user
from expertload.desk.people.sessions import begin_session
from expertload.desk.queue.answers import answer
from expertload.desk.queue.claims import claim
from expertload.desk.trail.chain import seal_events

SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
PAGES = {
    "sign_in": "/sign-in",
    "review": "/review",
    "overview": "/manage",
    "policies": "/manage/policies",
    "people": "/manage/people",
    "audit": "/audit",
    "account": "/account",
}
DOCS = Path(__file__).parents[1] / "docs" / "images"


class PastClock:
    """A clock that starts some hours ago and moves only when told."""

    def __init__(self, hours: float) -> None:
        self.behind = int(hours * 3.6e9)

    def __call__(self) -> int:
        """Return microseconds since 1970, some hours ago."""
        return time.time_ns() // 1_000 - self.behind


def fill(desk: Desk, clock: PastClock, *, n_cases: int, drift_after: int | None = None) -> None:
    """Fill a desk with half a day of cases and answers."""
    digits = train()
    prepare(desk, digits)
    people = [desk.write(add_user, name, ["reader"]) for name in ("Ada", "Grace")]
    arbiter = desk.write(add_user, "Katherine", ["arbiter"])
    chance, step = random.Random(0), clock.behind // n_cases
    truth: dict[str, str] = {}
    for case, label in digits.cases(run="digit", drift_after=drift_after):
        if len(truth) >= n_cases:
            break
        truth[case["key"]] = label
        desk.write(receive, [read_case(case)])
        if chance.random() < 0.6 and len(truth) < n_cases - 6:
            who = chance.choice([*people, arbiter])
            _read_one(desk, clock, truth, who, who == arbiter, chance)
        clock.behind = max(0, clock.behind - step)
    clock.behind = 0
    seal_events(desk)


def _read_one(
    desk: Desk, clock: PastClock, truth: dict[str, str], who: int, arbiter: bool, chance: Any
) -> None:
    held = desk.write(claim, who, arbiter=arbiter)
    if held is None:
        return
    clock.behind -= int(chance.uniform(5e6, 20e6))
    label = truth[held.key] if chance.random() > 0.03 else chance.choice(held.classes)
    desk.write(answer, who, held.lease, label, held.lease[:60])


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
    clock = PastClock(9)
    with (
        tempfile.TemporaryDirectory() as folder,
        Desk.open(folder, rules=DEMO_RULES, clock=clock) as desk,
    ):
        fill(desk, clock, n_cases=600)
        if "--docs" in sys.argv:
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
