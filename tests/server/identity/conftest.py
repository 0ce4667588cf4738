"""Doors for all tests of how people prove who they are."""

from __future__ import annotations

import pytest

from tests.server.identity.door import Door


@pytest.fixture
async def door(own_key: None) -> Door:
    return await Door().peopled()
