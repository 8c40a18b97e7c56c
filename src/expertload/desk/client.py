"""A Python client of the desk: sends cases in batches, retries if the network fails, never guesses.

A case counts as decided only if the desk has answered so. If all retries fail, the case is reported
as delegated and not acknowledged. Then send it again: the key makes that safe.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from expertload._check import require_extra
from expertload.exceptions import DeskRefusedError, ParameterError

__all__ = ["DeskClient", "SentOutcome"]

RETRIED_STATUSES = {408, 425, 429, 500, 502, 503, 504}
MOST_CASES = 5_000
NDJSON = {"Content-Type": "application/x-ndjson"}
MOST_BYTES = 30_000_000  # of a request; one with a large image may have more


@dataclass(frozen=True, kw_only=True)
class SentOutcome:
    """What became of a sent case.

    Attributes
    ----------
    key : str
        The case.
    status : {"decided", "delegated", "refused", "stored"}
        "decided" only if the desk answered so; "stored" is an answer of a model in shadow.
    label : str or None
        The decision.
    policy : int or None
        The policy that decided.
    cause : str or None
        Why the case was decided or delegated, for example "below_threshold" or "model_not_named".
    is_acknowledged : bool
        Whether the desk has the case. If not, send it again.
    error : str or None
        Why it was refused, or why the desk did not answer.
    """

    key: str
    status: str
    label: str | None = None
    policy: int | None = None
    cause: str | None = None
    is_acknowledged: bool = True
    error: str | None = None


class DeskClient:
    """Sends cases to a desk.

    Parameters
    ----------
    address : str
        For example ``"http://127.0.0.1:8765"``.
    token : str
        A token with the role "api".
    timeout : float, default=30.0
        Seconds to wait for an answer.
    attempts : int, default=5
        How often a request is sent before giving up, with growing pauses.
    transport : httpx transport, optional
        For tests.

    Examples
    --------
    >>> from expertload.desk.client import DeskClient
    >>> client = DeskClient("http://127.0.0.1:1", "eld_none", attempts=1)
    >>> outcome = client.send({"key": "a", "confidence": 0.99, "label": "cat"})
    >>> outcome.status, outcome.is_acknowledged
    ('delegated', False)
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        timeout: float = 30.0,
        attempts: int = 5,
        transport: Any = None,
    ) -> None:
        httpx = require_extra("httpx", "desk", "DeskClient")
        if attempts < 1:
            raise ParameterError(f"'attempts' must be at least 1. Got {attempts}.")
        self._network_error = httpx.HTTPError
        self._attempts = attempts
        self._client = httpx.Client(
            base_url=address,
            timeout=timeout,
            transport=transport,
            headers={"Authorization": f"Bearer {token}"},
            follow_redirects=False,
        )

    def send(self, case: dict[str, Any]) -> SentOutcome:
        """Send one case; raise `DeskRefusedError` if the desk refuses it."""
        (outcome,) = self.send_many([case])
        if outcome.status == "refused":
            raise DeskRefusedError("refused", outcome.error or "The desk refused the case.")
        return outcome

    def send_many(
        self, cases: Iterable[dict[str, Any]], *, batch_size: int = 1_000
    ) -> Iterator[SentOutcome]:
        """Send cases in batches; yield the outcome of each, in order."""
        return self._send_all("/api/cases", cases, batch_size)

    def send_shadows(
        self, answers: Iterable[dict[str, Any]], *, batch_size: int = 1_000
    ) -> Iterator[SentOutcome]:
        """Send answers of models that decide nothing, to cases that the desk knows.

        Each has "key", "model" and "probabilities". The status is "stored" or "refused"; send an
        answer that is not acknowledged again.
        """
        return self._send_all("/api/shadow", answers, batch_size)

    def _send_all(
        self, path: str, lines: Iterable[dict[str, Any]], batch_size: int
    ) -> Iterator[SentOutcome]:
        if not 1 <= batch_size <= MOST_CASES:
            raise ParameterError(f"'batch_size' must be from 1 to {MOST_CASES}. Got {batch_size}.")
        keys: list[str] = []
        content: list[str] = []
        size = 0
        for values in lines:
            line = json.dumps(values) + "\n"
            if keys and (len(keys) == batch_size or size + len(line) > MOST_BYTES):
                yield from self._send_batch(path, keys, "".join(content))
                keys, content, size = [], [], 0
            keys.append(str(values.get("key")))
            content.append(line)
            size += len(line)
        if keys:
            yield from self._send_batch(path, keys, "".join(content))

    def find(self, key: str) -> dict[str, Any]:
        """Return the status of a case and all decisions about it."""
        from urllib.parse import quote

        name = quote(key, safe="").replace(".", "%2E")  # "." and ".." would be folders
        answer = self._client.get(f"/api/cases/{name}")
        if answer.status_code != 200:
            raise _refusal(answer)
        case: dict[str, Any] = answer.json()
        return case

    def _send_batch(self, path: str, keys: list[str], content: str) -> list[SentOutcome]:
        problem = "the desk did not answer"
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(min(30, 0.2 * 2**attempt) * random.uniform(0.5, 1))
            try:
                answer = self._client.post(path, content=content, headers=NDJSON)
            except self._network_error as error:
                problem = f"the desk did not answer ({type(error).__name__})"
                continue
            if answer.status_code == 200:
                outcomes = _read(keys, answer.content)
                if outcomes is not None:
                    return outcomes
                problem = "the desk's answer could not be understood"
            elif answer.status_code in RETRIED_STATUSES:
                problem = f"the desk answered {answer.status_code}"
            else:
                raise _refusal(answer)
        return [
            SentOutcome(key=key, status="delegated", is_acknowledged=False, error=problem)
            for key in keys
        ]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> DeskClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _read(keys: list[str], content: bytes) -> list[SentOutcome] | None:
    """Read the answer to a batch; return None if it does not answer exactly these cases."""
    try:
        lines = [json.loads(line) for line in content.splitlines()]
        if len(lines) != len(keys):
            return None
        return [_outcome(key, line) for key, line in zip(keys, lines, strict=True)]
    except (ValueError, TypeError, KeyError):
        return None


def _outcome(key: str, line: dict[str, Any]) -> SentOutcome:
    if "error" in line:
        hint = line["error"]["hint"]
        reason = line["error"]["message"] + (f" Hint: {hint}" if hint else "")
        return SentOutcome(key=key, status="refused", is_acknowledged=False, error=reason)
    if line["key"] != key:
        raise ValueError("not an answer to this case")
    status, label = line["status"], line.get("label")
    if status == "stored":
        return SentOutcome(key=key, status=status)
    decided = status == "decided" and isinstance(label, str)
    if not (decided or (status == "delegated" and label is None)):
        raise ValueError("not an answer to this case")
    return SentOutcome(
        key=key, status=status, label=label, policy=line["policy"], cause=line.get("cause")
    )


def _refusal(answer: Any) -> DeskRefusedError:
    try:
        error = answer.json()["error"]
        return DeskRefusedError(str(error["code"]), str(error["message"]), str(error["hint"]))
    except (ValueError, TypeError, KeyError):
        return DeskRefusedError("http_error", f"The desk answered {answer.status_code}.")
