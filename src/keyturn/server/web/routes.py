"""All pages, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from . import changing, inbox, installing, live

router = APIRouter()
for each in (changing, inbox, installing, live):
    router.include_router(each.router)
