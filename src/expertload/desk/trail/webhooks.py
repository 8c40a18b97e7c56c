"""Webhooks: messages are signed, retried with growing pauses, and sent again on request.

A message sent after the commit can get lost, and one sent before it can turn out to be wrong. So
each message is stored as a row, in the transaction that it reports, and delivered after it. An
expert's decision is not sent before it can no longer be taken back.

A receiver checks `X-Desk-Signature`: the HMAC-SHA256 of `X-Desk-Delivery`, `X-Desk-Time` and the
body, joined by dots, with the secret that was shown when the webhook was added. The delivery is the
same for every attempt, so a receiver recognises a message that comes twice.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import secrets
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy import insert, select, update

from expertload.desk.store.database import CLOCK_SLACK, SECOND, AnyRow, Transaction
from expertload.desk.store.tables import in_state, outbox, webhooks
from expertload.exceptions import DeskRefusedError

if TYPE_CHECKING:
    import httpx

    from expertload.desk.desk import Desk

ATTEMPTS = 12
LONGEST_PAUSE = 3_600
TIMEOUT = 10.0
AT_ONCE = 50
# All that is assigned of IPv6, and addresses whose last 32 bits a gateway takes for one of IPv4.
PUBLIC = ipaddress.IPv6Network("2000::/3")
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def add_webhook(transaction: Transaction, url: str) -> tuple[int, str]:
    """Send messages to an address from now on; return its number and the secret, shown once."""
    if not _is_address(url):
        raise DeskRefusedError("bad_url", "A webhook needs an http or https address.")
    host = urlsplit(url).hostname or ""
    if is_internal(host) and host not in transaction.project.rules.webhook_hosts:
        raise DeskRefusedError(
            "bad_url",
            f"{host} is an internal address.",
            f"the operator may allow it: expertload desk rules webhook_hosts={host}",
        )
    secret = secrets.token_hex(32)
    event, key = transaction.event("webhook.added"), bytes.fromhex(secret)
    return transaction.insert(webhooks, event, url=url, secret=key), secret


def _is_address(url: str) -> bool:
    """Whether the client that sends messages accepts an address, and so do browsers."""
    import httpx

    try:
        httpx.URL(url)
        parts = urlsplit(url)
        _ = parts.port
    except (httpx.InvalidURL, ValueError):
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(url) <= 2_000


def is_internal(host: str) -> bool:
    """Whether a host is an address, or a name, of this machine or of a network of one's own."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a name, which is looked up when a message is sent
        return host == "localhost" or host.endswith(".localhost")
    if isinstance(address, ipaddress.IPv6Address):
        if address in NAT64:
            address = ipaddress.IPv4Address(int(address) % 2**32)
        elif inside := address.ipv4_mapped or address.sixtofour:
            address = inside
        elif address not in PUBLIC:
            return True
    return not address.is_global or address.is_multicast


def end_webhook(transaction: Transaction, number: int) -> None:
    """Stop sending messages to an address; those that wait for it are dropped."""
    transaction.find(webhooks, number, "webhook")
    transaction.update(webhooks, number, transaction.event("webhook.ended"), ended=transaction.now)
    transaction.connection.execute(
        update(outbox)
        .where(outbox.c.webhook_id == number, outbox.c.state == "waiting")
        .values(state="cancelled")
    )


def send_again(transaction: Transaction, webhook: int, *, since: int) -> int:
    """Send the messages since a time, in microseconds, again; return how many."""
    transaction.find(webhooks, webhook, "webhook")
    again = transaction.connection.execute(
        update(outbox)
        .where(outbox.c.webhook_id == webhook, outbox.c.created >= since)
        .where(outbox.c.state.in_(("sent", "failed")))
        .values(state="waiting", attempts=0, next_try=transaction.now, error=None)
    )
    return again.rowcount


# ------------------------------------------------------------------ the outbox


def announce(
    transaction: Transaction,
    kind: str,
    payload: dict[str, Any],
    *,
    case_id: int | None = None,
    delay: int = 0,
) -> None:
    """Put a message for every webhook of the project into the outbox."""
    hooks = transaction.values(
        select(webhooks.c.id).where(transaction.in_project(webhooks), webhooks.c.ended.is_(None))
    )
    text = json.dumps({"kind": kind, "at": transaction.now, **payload}, separators=(",", ":"))
    row = {
        "project_id": transaction.project.id,
        "kind": kind,
        "case_id": case_id,
        "payload": text,
        "state": "waiting",
        "attempts": 0,
        "next_try": transaction.now + delay,
        "created": transaction.now,
    }
    if hooks:
        messages = [{**row, "webhook_id": hook} for hook in hooks]
        transaction.connection.execute(insert(outbox), messages)


def take_back(transaction: Transaction, case_id: int) -> bool:
    """Cancel the messages about the decision of a case; return False if one was already sent."""
    of_case = (outbox.c.case_id == case_id) & (outbox.c.kind == "case.decided")
    sent = select(outbox.c.id).where(of_case, outbox.c.state == "sent")
    if transaction.first(sent) is not None:
        return False
    waiting = of_case & (outbox.c.state == "waiting")
    transaction.connection.execute(update(outbox).where(waiting).values(state="cancelled"))
    return True


# ------------------------------------------------------------------ delivery


def signature(secret: bytes, delivery: str, moment: str, body: str) -> str:
    """Return the signature of a message, which receivers compare with their own."""
    return hmac.digest(secret, f"{delivery}.{moment}.{body}".encode(), "sha256").hex()


def deliver(desk: Desk) -> int:
    """Send each message that is due once; return how many arrived."""
    messages = desk.write(_take)
    if not messages:
        return 0
    allowed = desk.read(lambda transaction: transaction.project.rules.webhook_hosts)
    with ThreadPoolExecutor(1) as apart:  # the calling thread may have a loop of its own
        errors = apart.submit(asyncio.run, _post_all(messages, allowed)).result()
    for message, error in zip(messages, errors, strict=True):
        desk.write(_record, message.id, error)
    return errors.count(None)


def _take(transaction: Transaction) -> list[AnyRow]:
    """Take messages that are due. If this server dies, they are due again after a while."""
    execute = transaction.connection.execute
    latest = transaction.now + LONGEST_PAUSE * SECOND + CLOCK_SLACK
    execute(  # due later than any pause: the clock was set back since
        update(outbox)
        .where(in_state(outbox, "waiting"), outbox.c.next_try > latest)
        .values(next_try=transaction.now)
    )
    due = (
        select(outbox.c.id)
        .where(transaction.in_project(outbox), in_state(outbox, "waiting"))
        .where(outbox.c.next_try <= transaction.now)
        .order_by(outbox.c.next_try)
        .limit(AT_ONCE)
    )
    # SQLite, which has one writer, ignores FOR UPDATE.
    numbers = transaction.values(due.with_for_update(skip_locked=True))
    again = transaction.now + int(10 * TIMEOUT * SECOND)
    taking = update(outbox).where(outbox.c.id.in_(numbers))
    execute(taking.values(attempts=outbox.c.attempts + 1, next_try=again))
    taken = (
        select(outbox.c.id, outbox.c.payload, webhooks.c.url, webhooks.c.secret)
        .select_from(outbox.join(webhooks, webhooks.c.id == outbox.c.webhook_id))
        .where(outbox.c.id.in_(numbers), webhooks.c.ended.is_(None))
        .order_by(outbox.c.id)
    )
    return transaction.all(taken)


async def _post_all(messages: Sequence[AnyRow], allowed: Sequence[str]) -> list[str | None]:
    """Send messages at the same time, so that no receiver keeps another one waiting."""
    import httpx

    # A host is looked up once for all of its messages: one whose name nobody answers for would
    # otherwise take all threads that look up names.
    addresses: dict[str, asyncio.Task[str]] = {}
    async with httpx.AsyncClient(timeout=TIMEOUT) as client:
        posts = (_post(client, message, allowed, addresses) for message in messages)
        return list(await asyncio.gather(*posts))


async def _public_address(host: str) -> str:
    """Return an address of a host; refuse the host if any of its addresses is internal."""
    answers = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = [str(place[0]) for *_, place in answers]
    if any(map(is_internal, addresses)):
        raise PermissionError
    return addresses[0]


async def _post(
    client: httpx.AsyncClient,
    message: AnyRow,
    allowed: Sequence[str],
    addresses: dict[str, asyncio.Task[str]],
) -> str | None:
    """Send one message; return what went wrong, or None if it arrived.

    The name is looked up once, so that it cannot lead elsewhere after it was checked.
    """
    import httpx

    delivery, moment = str(message.id), str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "X-Desk-Delivery": delivery,
        "X-Desk-Time": moment,
        "X-Desk-Signature": signature(message.secret, delivery, moment, message.payload),
    }
    try:
        # Only the status is read, because the body of the answer may be endless; and in all, no
        # receiver gets more time than this, however slowly it answers.
        async with asyncio.timeout(TIMEOUT):
            url = httpx.URL(message.url)
            headers["Host"] = url.netloc.decode()
            named = {"sni_hostname": url.host}
            if url.host not in allowed:
                if url.host not in addresses:
                    addresses[url.host] = asyncio.create_task(_public_address(url.host))
                url = url.copy_with(host=await asyncio.shield(addresses[url.host]))
            request = client.build_request(
                "POST", url, content=message.payload, headers=headers, extensions=named
            )
            answer = await client.send(request, stream=True)
            await answer.aclose()
            return None if answer.is_success else f"status {answer.status_code}"
    except PermissionError:
        return "an internal address that webhook_hosts does not name"
    except Exception as error:  # a message that cannot be sent must not hold up the others
        return type(error).__name__


def _record(transaction: Transaction, number: int, error: str | None) -> None:
    attempts = transaction.value(select(outbox.c.attempts).where(outbox.c.id == number))
    values: dict[str, Any] = {"error": error}
    if error is None or attempts >= ATTEMPTS:
        values["state"] = "failed" if error else "sent"
    else:
        values["next_try"] = transaction.now + min(LONGEST_PAUSE, 2**attempts) * SECOND
    transaction.connection.execute(update(outbox).where(outbox.c.id == number).values(**values))
