"""All routes by which people prove who they are, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from . import account, links, login, passkeys

router = APIRouter()
for each in (login, links, passkeys, account):
    router.include_router(each.router)
