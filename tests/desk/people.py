"""People at a desk, signed in as a browser would be."""

from __future__ import annotations

import httpx

from expertload.desk.people.accounts import add_user, find_user
from expertload.desk.people.sessions import begin_session

PASSWORD = "correct horse battery"


def person(desk, name: str, *roles: str) -> int:
    """The number of a person, who is added if new."""
    row = desk.read(find_user, name)
    return row.id if row else desk.write(add_user, name, roles)


class Visitor(httpx.Client):
    """A client that follows no redirects and says that its forms come from the desk."""

    def __init__(self, address: str, *, secret: str | None = None, **options) -> None:
        super().__init__(base_url=address, timeout=60, **options)
        self.headers["Origin"] = address
        if secret is not None:
            port = address.rpartition(":")[2]
            self.cookies.set(f"desk-{port}", secret)

    def form(self, path: str, **fields):
        return self.post(path, data=fields)


def visitor(desk, address: str, name: str, *roles: str) -> Visitor:
    """Somebody with these roles, signed in."""
    user = person(desk, name, *roles)
    return Visitor(address, secret=desk.acting(user).write(begin_session, user))


def visit(world, name: str, *roles: str) -> Visitor:
    """Somebody with these roles, signed in at a world that is served."""
    return visitor(world.desk, world.address, name, *roles)
