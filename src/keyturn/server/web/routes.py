"""All pages, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from . import agents, audit, channels, components, grants, inbox, insights, live, people, policies, runs, settings

router = APIRouter()
for each in (inbox, live, runs, grants, agents, policies, insights, audit, people, channels, settings, components):
    router.include_router(each.router)
