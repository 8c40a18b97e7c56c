"""`/api/policies`: the policies that decide, have decided or may decide."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from expertload.desk.api.access import desk_of, needs
from expertload.desk.api.bodies import read_limited
from expertload.desk.intake import read_policy
from expertload.desk.people import Principal
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import policies
from expertload.desk.watch import activate, add_policy, withdraw
from expertload.desk.watch.policies import find_policy
from expertload.exceptions import DeskRefusedError

__all__ = ["router"]

router = APIRouter(prefix="/api/policies")
Manager = Annotated[Principal, Depends(needs("manager"))]
Onlooker = Annotated[Principal, Depends(needs("manager", "auditor"))]
MOST_BYTES = 4_000_000


class WithdrawBody(BaseModel):
    """Why a policy ends."""

    model_config = ConfigDict(extra="forbid", strict=True)
    reason: Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^[^\x00]+$")]


@router.get("", summary="All policies, the newest first")
async def show_all(request: Request, somebody: Onlooker) -> list[dict[str, Any]]:
    """Return every policy and its state."""
    return await desk_of(request).aread(_all)


_SENT = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}


@router.post(
    "",
    status_code=201,
    summary="Add a certified policy as a draft",
    openapi_extra={"requestBody": _SENT},
)
async def add(request: Request, manager: Manager) -> dict[str, Any]:
    """Store a policy that 'expertload evaluate --save-policy' wrote."""
    data = await read_limited(request, MOST_BYTES)
    try:
        document = data.decode()
    except UnicodeDecodeError:
        raise DeskRefusedError("bad_policy", "This is not a policy: it is not text.") from None
    desk = desk_of(request).acting(manager.user)
    return await _state(request, await desk.awrite(add_policy, document))


@router.post("/{number}/activate", summary="Let a draft decide from now on")
async def begin(number: int, request: Request, manager: Manager) -> dict[str, Any]:
    """Activate a draft; the policy before it ends."""
    await desk_of(request).acting(manager.user).awrite(activate, _possible(number))
    return await _state(request, number)


@router.post("/{number}/withdraw", summary="End a policy for good")
async def end(
    number: int, body: WithdrawBody, request: Request, manager: Manager
) -> dict[str, Any]:
    """Withdraw a policy: from now on everything goes to experts."""
    desk = desk_of(request).acting(manager.user)
    await desk.awrite(withdraw, _possible(number), reason=body.reason)
    return await _state(request, number)


async def _state(request: Request, number: int) -> dict[str, Any]:
    return await desk_of(request).aread(_one, number)


def _one(transaction: Transaction, number: int) -> dict[str, Any]:
    return _shown(find_policy(transaction, number))


def _all(transaction: Transaction) -> list[dict[str, Any]]:
    rows = transaction.connection.execute(
        select(policies)
        .where(policies.c.project_id == transaction.project.id)
        .order_by(policies.c.id.desc())
    )
    return [_shown(row) for row in rows]


def _shown(row: AnyRow) -> dict[str, Any]:
    policy = read_policy(row.document)
    point = policy.point
    return {
        "id": row.id,
        "state": row.state,
        "sha256": row.sha256,
        "source": row.source,
        "target_accuracy": point.target_accuracy,
        "expert_load": point.expert_load,
        "model": policy.model,
        "guarantee": point.guarantee,
        "created": row.created / 1e6,
        "activated": None if row.activated is None else row.activated / 1e6,
        "withdrawn": None if row.withdrawn is None else row.withdrawn / 1e6,
        "reason": row.reason,
    }


def _possible(number: int) -> int:
    """Return a number that a database can search for; refuse others."""
    if not 0 <= number < 2**63:
        raise DeskRefusedError("not_found", f"There is no policy {number}.")
    return number
