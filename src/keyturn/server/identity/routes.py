"""All routes by which people prove who they are, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from . import account, host, links, login, passkeys, single_sign_on

router = APIRouter()
for each in (login, host, single_sign_on, links, passkeys, account):
    router.include_router(each.router)
