"""Say each refusal of ours as a status, a kind and words, the same at every route."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ..core.encodable import moment
from ..core.errors import (
    BadJson,
    Conflict,
    Expired,
    KeyturnError,
    NotAllowed,
    NotPending,
    RunMissing,
    StorageError,
    UserError,
)
from ..core.people import ProofRefused
from ..directory.bounds import LimitReached
from ..directory.sign_ins import ShownOnce
from .reading_logs import AtWork, TookTooLong


class Refused(NamedTuple):
    """Says why a request was refused; of a lost race who won, by which word and when."""

    status: int
    kind: str
    message: str
    winner: str | None = None
    decision: str | None = None
    at: datetime | None = None


_STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (Conflict, 409, "conflict"),
    (Expired, 410, "expired"),
    (RunMissing, 404, "missing"),
    (NotPending, 404, "missing"),
    (ProofRefused, 403, "proof"),
    (NotAllowed, 403, "not_allowed"),
    (BadJson, 422, "bad_json"),
    (LimitReached, 422, "limit"),
    (ShownOnce, 409, "shown_once"),
    (UserError, 422, "bad_request"),
    (TookTooLong, 503, "too_long"),
    (AtWork, 429, "too_many"),
    (StorageError, 503, "storage"),
    (KeyturnError, 400, "refused"),
)


def refused(error: KeyturnError) -> Refused:
    """Return how an error of ours is told.

    >>> refused(NotAllowed("ada may not")).status
    403
    """
    status, kind = next((status, kind) for of, status, kind in _STATUS if isinstance(error, of))
    if isinstance(error, Conflict):
        at = None if error.at is None else moment(error.at)
        return Refused(status, kind, error.message, error.winner, error.decision, at)
    return Refused(status, kind, error.message)
