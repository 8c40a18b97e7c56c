"""A page of the desk that somebody has open in a real browser."""

from __future__ import annotations

import base64
import io

import numpy as np
from playwright.sync_api import expect

from expertload.desk.people.sessions import begin_session
from tests.desk.people import person
from tests.desk.world import sent

# People look before they answer; tests answer at once, as if a second had passed.
PATIENT = "performance.now = () => -1000"
# Whoever is hasty presses a tenth of a second after a page is shown, however slow the machine is.
HASTY = """
performance.now = () => 0;
Object.defineProperty(Event.prototype, "timeStamp", { get: () => window.later ? 1000 : 100 });
"""


class Tab:
    """A page that somebody has open, what it asked for and what it complained about."""

    def __init__(self, world, name, *roles, width=1280, height=860, hasty=False, **options):
        context = world.browser.new_context(viewport={"width": width, "height": height}, **options)
        world.stack.callback(context.close)
        context.add_init_script(HASTY if hasty else PATIENT)
        if name is not None:
            user = person(world.desk, name, *roles)
            secret = world.desk.acting(user).write(begin_session, user)
            cookie = f"desk-{world.address.rpartition(':')[2]}"
            context.add_cookies([{"name": cookie, "value": secret, "url": world.address}])
        self.world, self.page = world, context.new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, path="/review"):
        self.page.goto(self.world.address + path)
        return self

    @property
    def title(self):
        return self.page.title()

    def press(self, key, *, leads_to=None):
        """Press a key; if it leads to another page, wait for that."""
        if leads_to is None:
            self.page.keyboard.press(key)
            return
        if key == "Enter" and self.page.locator("[autofocus]").count():
            expect(self.page.locator("[autofocus]")).to_be_focused()
        with self.page.expect_navigation():
            self.page.keyboard.press(key)
        assert leads_to in self.title, self.title

    def look(self):
        """Look at the page for a second, in a tab that is hasty otherwise."""
        self.page.evaluate("window.later = true")

    def click(self, button):
        """Click a button that sends a form, and wait for the page that answers."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=button).click()

    def text(self, query="main"):
        return self.page.locator(query).inner_text()


def picture(side: int = 96) -> str:
    from PIL import Image

    shades = np.linspace(0, 255, side * side).astype(np.uint8).reshape(side, side)
    out = io.BytesIO()
    Image.fromarray(shades).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def image(key: str) -> dict:
    return sent(key, 0.6, body={"kind": "image", "content": picture()})
