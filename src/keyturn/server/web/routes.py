"""All pages, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from . import (
    agents,
    audit,
    changing,
    channels,
    components,
    connect,
    granting,
    grants,
    inbox,
    insights,
    installing,
    live,
    people,
    policies,
    runs,
    settings,
)

router = APIRouter()
for each in (changing, granting, inbox, installing, live, runs, grants, agents, policies):
    router.include_router(each.router)
for each in (insights, audit, people, channels, settings, components, connect):
    router.include_router(each.router)
