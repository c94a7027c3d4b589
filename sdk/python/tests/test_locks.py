"""Locks of the client, beside a real node."""

from __future__ import annotations

import asyncio

import pytest
from conftest import Node

from punctual import Client, Problem


async def test_one_client_at_a_time_holds_a_lock(node: Node) -> None:
    async with Client(node.url) as client:
        fences: list[int] = []
        inside = 0

        async def work() -> None:
            nonlocal inside
            async with client.lock("import", ttl=10) as lock:
                inside += 1
                assert inside == 1
                fences.append(lock.fence)
                await asyncio.sleep(0.01)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(5)))
        assert len(fences) == 5 and fences == sorted(set(fences))


async def test_a_held_lock_is_refused_or_waited_for(node: Node) -> None:
    async with Client(node.url) as client, client.lock("import", owner="first", ttl=1) as lock:
        with pytest.raises(Problem) as refused:
            async with client.lock("import", wait=2):
                pass
        assert refused.value.code == "locked" and "`first`" in refused.value.message
        assert not lock.lost.is_set(), "it was renewed meanwhile"


async def test_a_lock_that_is_taken_away_is_lost(node: Node) -> None:
    async with Client(node.url) as client, client.lock("import", ttl=1) as lock:
        await client._post("/locks/import/release", {"fence": str(lock.fence)}, may_repeat=True)
        await asyncio.wait_for(lock.lost.wait(), 10)
