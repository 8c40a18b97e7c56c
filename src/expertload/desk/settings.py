"""What a team decides about its desk: how much is checked, how long a lease lasts, when to stop."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Rules(BaseModel):
    """The rules of a project. They are stored in its row, and every change is an event.

    Attributes
    ----------
    classes : tuple of str
        The answers that readers may give; if empty, the classes of the latest policy.
    quality_rate : float
        Share of cases that are read blind, whatever the policy says. This sample is used to watch
        the promise.
    raised_rate : float
        The share after a first warning, until the next policy is activated.
    second_share : float
        Share of cases that a second reader sees although there is no dispute. Without it, only
        disagreements would be read twice, which makes experts look better than they are.
    audit_second_share : float
        Share of audits that a second reader sees if the first one agrees with the model. Only these
        agreements count, so that a mistake that readers share with the model does not pass for
        right, and disagreements count as much less. All of them cost the fewest readings for the
        same evidence; 0 trusts a single reader.
    doubtful_ratio : float
        How many times as often the least confident fifth of automatic decisions is audited; the
        share of all stays `quality_rate`. It starts when 100 decisions show which fifth that is.
    certify_share : float
        Share of the fair sample that certifies and never trains: see `desk.intake.sampling`. Fixed
        from the first export for training on.
    alarm_level : float
        Probability of ever withdrawing a policy that keeps its promise.
    strict : bool
        Decide automatically only while the promise is confirmed.
    webhook_hosts : tuple of str
        Hosts of webhooks that may be internal addresses; others must be on the public internet.
    lease_seconds, undo_seconds, skip_rest_seconds, due_seconds : int
        How long a reader holds a case; how long an answer can be taken back; how long a skipped
        case is not offered to the same reader; when a case without a due time is due.

    Examples
    --------
    >>> from expertload.desk.settings import Rules
    >>> Rules(quality_rate=0.1).lease_seconds
    900
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    classes: tuple[str, ...] = ()
    quality_rate: Share = 0.05
    raised_rate: Share = 0.2
    second_share: Share = 0.1
    audit_second_share: Share = 1.0
    doubtful_ratio: Annotated[float, Field(ge=1, le=10)] = 3.0
    certify_share: Share = 0.5
    alarm_level: Annotated[float, Field(gt=0, lt=1)] = 0.05
    strict: bool = False
    webhook_hosts: tuple[str, ...] = ()
    lease_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900
    undo_seconds: Annotated[int, Field(ge=0, le=3_600)] = 10
    skip_rest_seconds: Annotated[int, Field(ge=0, le=604_800)] = 1_800
    due_seconds: Annotated[int, Field(ge=0, le=31_536_000)] = 86_400
