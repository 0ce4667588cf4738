"""All pages, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from . import inbox, live

router = APIRouter()
for each in (inbox, live):
    router.include_router(each.router)
