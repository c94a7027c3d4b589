"""A lock that is held while a block runs, and renewed in the background.

The holder counts its time from when it sent the last request that succeeded, by the monotonic clock. So it knows that
the lock is lost before another owner can get it, even if no server can be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from punctual.errors import Problem, PunctualError, Unreachable

#: How long one request waits for a lock.
WAIT_MAX = 30.0
#: The pause before a request is repeated.
_AGAIN = 0.2
#: The codes of problems that may pass.
_PASSING = ("unavailable", "too_many_connections", "full", "internal")


class Lock:
    """A lock that this process holds."""

    def __init__(self, name: str, fence: int) -> None:
        self.name = name
        #: Larger for every later holder. Send it to what the lock protects, which then can refuse a late holder.
        self.fence = fence
        #: Set when the lock may have ended: its work has to stop.
        self.lost = asyncio.Event()


async def acquire(ask: Callable[[float], Awaitable[int]], ttl: float, wait: float | None) -> tuple[int, float]:
    """Acquires a lock by as many requests as it takes. Returns its fence, and when the last request was sent."""
    now = asyncio.get_running_loop().time
    until = None if wait is None else now() + wait
    while True:
        asked = now()
        left = WAIT_MAX if until is None else max(0.0, min(WAIT_MAX, until - asked))
        try:
            fence = await ask(left)
        except Problem as problem:
            if problem.code != "locked" or left == 0.0:
                raise
        else:
            # After a wait, the same request again tells how much time is left: it begins anew.
            if now() - asked <= ttl / 3:
                return fence, asked


async def keep(lock: Lock, renew: Callable[[], Awaitable[None]], ttl: float, since: float) -> None:
    """Renews a lock until it is lost."""
    now = asyncio.get_running_loop().time
    pause = ttl / 3
    while now() < since + ttl * 0.9:
        await asyncio.sleep(min(since + ttl * 0.9 - now(), pause))
        asked = now()
        try:
            async with asyncio.timeout_at(since + ttl * 0.9):
                await renew()
        except (Unreachable, TimeoutError):
            pause = min(_AGAIN, ttl / 10)
        except Problem as problem:
            if problem.code not in _PASSING:
                break
            pause = min(_AGAIN, ttl / 10)
        else:
            since, pause = asked, ttl / 3
    lock.lost.set()


async def release(ask: Callable[[], Awaitable[None]]) -> None:
    """Releases a lock. If that fails, it ends by itself."""
    with contextlib.suppress(PunctualError):
        await ask()
