"""Signing in and out: with a password, a one-time link, or single sign-on.

The session is a random cookie.
"""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Form, Request, Response

from expertload._names import Role
from expertload.desk.api.access import desk_of
from expertload.desk.pages.page import PageRoute, go, render
from expertload.desk.people import accounts, sessions, sign_on
from expertload.desk.people.accounts import Principal
from expertload.exceptions import DeskRefusedError

router = APIRouter(route_class=PageRoute)
Text = Annotated[str, Form(max_length=1_000)]
WRONG = "The name or the password is wrong."
WRONG_OLD = "The old password is wrong."
LOST = "Your session was over, so what you sent was not saved. Sign in, and send it again."


def prepare(
    app: FastAPI,
    proxy: sign_on.TrustedProxy | None,
    provider: sign_on.OpenIdConnect | None,
    passwords: bool,
) -> None:
    """Set up an app's limits on wrong passwords, its trusted proxy and its sign-in provider."""
    app.state.proxy, app.state.provider = proxy, provider
    app.state.asking = sessions.SignInThreads()
    app.state.passwords = sessions.SignInThreads() if passwords else None
    app.state.guesses_a_name = sessions.Throttle(5)
    app.state.guesses_an_address = sessions.Throttle(50)


def _passwords(request: Request) -> sessions.SignInThreads:
    threads: sessions.SignInThreads | None = request.app.state.passwords
    if threads is None:
        raise DeskRefusedError("not_found", "People do not sign in to this desk with passwords.")
    return threads


def _address(request: Request) -> str:
    """Return the address that guesses are counted by; an IPv6 sender owns a whole network."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host


# ------------------------------------------------------------------ the cookie


def _cookie(request: Request, more: str = "") -> str:
    """Return a cookie's name: browsers send a __Host- cookie only over https, and only here.

    Without https, on the loopback address, all ports share cookies, so the name has the port.
    """
    return f"__Host-desk{more}" if _is_secure(request) else f"desk-{request.url.port or 80}{more}"


def _is_secure(request: Request) -> bool:
    """Whether the browser uses https, to the desk or to a proxy in front of it."""
    return request.url.scheme == "https"


def _set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int) -> None:
    options: dict[str, Any] = {"httponly": True, "samesite": "lax", "secure": _is_secure(request)}
    answer.set_cookie(name, value, max_age=seconds, **options)


def _delete_cookie(request: Request, answer: Response, name: str) -> None:
    answer.delete_cookie(name, secure=_is_secure(request), httponly=True)


def _welcome(request: Request, secret: str, there: str) -> Response:
    """Set the session's cookie and redirect the browser."""
    answer = go(there)
    _set_cookie(request, answer, _cookie(request), secret, sessions.SESSION_SECONDS)
    return answer


def signed_in(*roles: Role) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency that gives the signed-in user, who must have one of these roles."""

    async def somebody(request: Request) -> Principal:
        who = request.state.who = await _who(request)
        if who is None:
            raise DeskRefusedError("unauthorized", "Sign in first.")
        return accounts.require(who, *roles) if roles else who

    somebody.roles = roles  # type: ignore[attr-defined]  # for the test that walks every page
    return somebody


async def _who(request: Request) -> Principal | None:
    """Return who sends a request, from the trusted proxy's header or the session's cookie."""
    desk = desk_of(request)
    proxy: sign_on.TrustedProxy | None = request.app.state.proxy
    if proxy is not None and proxy.vouches(request.headers.get("x-desk-proxy-secret", "")):
        return await desk.aread(accounts.find_named, request.headers.get(proxy.header, ""))
    secret = request.cookies.get(_cookie(request))
    if not secret:
        return None
    who = await desk.aread(sessions.find_session, secret)
    asked_by_script = request.url.path == "/review/waiting"
    if who and not asked_by_script and await desk.aread(sessions.is_idle, secret):
        await desk.awrite(sessions.keep_session, secret)
    return who


Anybody = Annotated[Principal, Depends(signed_in())]


# ------------------------------------------------------------------ in


@router.get("/sign-in")
async def ask(
    request: Request,
    next: str = "/",  # noqa: A002 - a form's field
    lost: str = "",
) -> Response:
    """Show the form."""
    problem = LOST if lost else ""
    return render(request, "sign_in.html.j2", name="", problem=problem, there=_inside(next))


@router.post("/sign-in")
async def enter(
    request: Request,
    name: Text,
    password: Text,
    next: Text = "/",  # noqa: A002
) -> Response:
    """Check a name and a password."""
    threads, desk, app = _passwords(request), desk_of(request), request.app.state
    now, address = time.monotonic(), _address(request)
    # By name and address: a stranger elsewhere cannot lock somebody out.
    guess = f"{name[:200]} {address}"
    app.guesses_an_address.attempt(address, now)
    app.guesses_a_name.attempt(guess, now)
    row = await desk.aread(accounts.find_user, name)
    stored = row.password if row is not None and row.disabled is None else None
    if not await threads.run(sessions.check_password, stored, password) or row is None:
        await desk.awrite(sessions.refuse_session, name)
        return render(
            request, "sign_in.html.j2", status=401, name=name, problem=WRONG, there=_inside(next)
        )
    app.guesses_an_address.forgive(address)
    app.guesses_a_name.forgive(guess)
    secret = await desk.acting(row.id).awrite(sessions.begin_session, row.id)
    return _welcome(request, secret, _inside(next))


@router.get("/welcome/{secret}")
async def show_link(secret: str, request: Request) -> Response:
    """Show whose link it is. It stays valid, because mail programs open links too."""
    _passwords(request)
    owner = await desk_of(request).aread(sessions.peek_link, secret)
    return render(request, "welcome.html.j2", owner=owner, problem="")


@router.post("/welcome/{secret}")
async def follow_link(secret: str, request: Request, password: Text = "") -> Response:
    """Use a link, which then ends: sign in, and store the password if one was chosen."""
    threads, desk = _passwords(request), desk_of(request)
    owner = await desk.aread(sessions.peek_link, secret)
    try:
        stretched = await threads.run(sessions.hash_password, password) if password else None
    except DeskRefusedError as error:
        values = {"owner": owner, "problem": error.message}
        return render(request, "welcome.html.j2", status=422, **values)
    session = await desk.acting(owner.user).awrite(sessions.use_link, secret, stretched=stretched)
    return _welcome(request, session, "/")


def _inside(there: str) -> str:
    """Return a path of this desk, even if another site was asked for."""
    is_path = there.startswith("/") and not there.startswith(("//", "/\\"))
    return there if is_path and there.isprintable() else "/"


# ------------------------------------------------------------------ account, and out


@router.get("/")
async def home(request: Request, who: Anybody) -> Response:
    """Redirect everybody to their own page."""
    if who.roles & {"reader", "arbiter"}:
        return go("/review")
    return go("/manage" if who.roles & {"manager", "auditor"} else "/account")


@router.get("/account")
async def account(request: Request, who: Anybody) -> Response:
    """Show the user's own account."""
    return render(request, "account.html.j2", problem="")


@router.post("/account/password")
async def change_password(request: Request, who: Anybody, old: Text, new: Text) -> Response:
    """Change the user's own password; other sessions end."""
    threads, desk = _passwords(request), desk_of(request)
    guesses: sessions.Throttle = request.app.state.guesses_a_name
    guess = f"{who.name} {_address(request)}"
    guesses.attempt(guess, time.monotonic())
    row = await desk.aread(accounts.find_user, who.name)
    stored = None if row is None else row.password
    if stored is not None and not await threads.run(sessions.check_password, stored, old):
        return render(request, "account.html.j2", status=422, problem=WRONG_OLD)
    guesses.forgive(guess)
    try:
        stretched = await threads.run(sessions.hash_password, new)
    except DeskRefusedError as error:
        if error.code == "too_many":
            raise
        return render(request, "account.html.j2", status=422, problem=error.message)
    await desk.awrite(accounts.set_password, who.user, stretched)
    await desk.awrite(accounts.end_sessions, who.user)
    return _welcome(request, await desk.awrite(sessions.begin_session, who.user), "/account")


@router.post("/sign-out")
async def leave(request: Request, who: Anybody, everywhere: Text = "") -> Response:
    """End this session, or all sessions of the user."""
    desk = desk_of(request)
    if everywhere:
        await desk.awrite(accounts.end_sessions, who.user)
    else:
        await desk.awrite(sessions.end_session, request.cookies.get(_cookie(request), ""))
    answer = go("/sign-in")
    _delete_cookie(request, answer, _cookie(request))
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


# ------------------------------------------------------------------ single sign-on

ATTEMPT, ATTEMPT_SECONDS = "-attempt", 600  # of a sign-in at the provider


def _provider(request: Request) -> sign_on.OpenIdConnect:
    provider: sign_on.OpenIdConnect | None = request.app.state.provider
    if provider is None:
        raise DeskRefusedError("not_found", "This desk has no single sign-on.")
    return provider


def _back(request: Request) -> str:
    return f"{request.base_url}single-sign-on/back"


@router.get("/single-sign-on")
async def to_provider(request: Request) -> Response:
    """Send the browser to the provider."""
    attempt = sign_on.Attempt.new()
    asking = request.app.state.asking
    answer = go(await asking.run(_provider(request).address, attempt, _back(request)))
    _set_cookie(request, answer, _cookie(request, ATTEMPT), ".".join(attempt), ATTEMPT_SECONDS)
    return answer


@router.get("/single-sign-on/back")
async def from_provider(request: Request, code: str = "", state: str = "") -> Response:
    """Sign in the user whom the provider names, if a manager has added them."""
    provider = _provider(request)
    attempt = sign_on.Attempt.read(request.cookies.get(_cookie(request, ATTEMPT), ""))
    if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise DeskRefusedError("forbidden", "This sign-in did not start here.", "sign in again.")
    name = await request.app.state.asking.run(provider.name_of, code, attempt, _back(request))
    desk = desk_of(request)
    who = await desk.aread(accounts.find_named, name)
    if who is None:
        raise DeskRefusedError(
            "forbidden", f"'{name}' is not a user of this desk.", "ask a manager to add you."
        )
    secret = await desk.acting(who.user).awrite(sessions.begin_session, who.user)
    answer = _welcome(request, secret, "/")
    _delete_cookie(request, answer, _cookie(request, ATTEMPT))
    return answer
