"""examples/rows.py: one run over many rows, while its node and its workers are killed and drained."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from conftest import ROOT, Node, Program, until

from punctual import Client, Run

EXAMPLE = ROOT / "examples" / "rows.py"
#: `ROWS` says how many rows, `FULL=1` ten million. A run stores one checkpoint a second, so the small run has fewer.
FULL = "FULL" in os.environ
ROWS = int(os.environ.get("ROWS", "10000000" if FULL else "1000000"))
CHUNK = max(1, ROWS // (100 if FULL else 20))


def chunks(folder: Path, name: str) -> list[tuple[int, int]]:
    """The chunks that a worker has begun."""
    settled = [
        line.split(": settles ")[1]
        for line in (folder / f"{name}.log").read_text().splitlines()
        if ": settles " in line
    ]
    return [(int(first), int(end)) for first, end in (words.split(" to ") for words in settled)]


def last_stored(folder: Path, name: str) -> int:
    """The last checkpoint that a worker knows to be stored."""
    lines = (folder / f"{name}.log").read_text().splitlines()
    return int([line for line in lines if ": stored " in line][-1].split()[-1])


async def test_a_run_survives_a_killed_node_a_killed_and_a_drained_worker(node: Node, tmp_path: Path) -> None:
    first = Program(EXAMPLE, node, tmp_path, name="first")
    async with Client(node.url) as client:
        run = await client.submit(function="settle-rows", params={"rows": ROWS, "chunk": CHUNK})

        async def reaches(percent: int) -> Run:
            """Waits for the checkpoint."""

            async def is_so() -> bool:
                now = await client.run(run.id)
                done = now.checkpoint["value"]["rows"] if now.checkpoint else 0
                return now.state == "running" and done >= ROWS * percent // 100

            await until(is_so, within=600 if FULL else 60)
            return await client.run(run.id)

        await reaches(20)
        node.kill()
        node.start()
        others = [Program(EXAMPLE, node, tmp_path, name=name) for name in ("second", "third")]
        await reaches(40)
        first.kill()
        has_it = ((await reaches(70)).worker or "").partition("@")[0]
        await client.drain(has_it)
        ended = await client.wait(run.id, 600 if FULL else 60)
        for other in others:
            other.kill()
    assert (ended.state, ended.result) == (
        "succeeded",
        {"rows": ROWS, "sum": sum(row % 97 for row in range(ROWS))},
    )
    attempts = ended.attempts or []
    assert [attempt["result"] for attempt in attempts] == ["lost", "moved", "succeeded"]
    names = [attempt["worker"].partition("@")[0] for attempt in attempts]
    assert names[0] == "first" and names[1] == has_it and set(names) == {"first", "second", "third"}

    done = [chunks(tmp_path, name) for name in names]
    for begun in done:
        assert all(before[1] == after[0] for before, after in pairwise(begun)), begun
    assert (done[0][0][0], done[2][-1][1]) == (0, ROWS)
    for (before, after), name in zip(pairwise(done), names, strict=False):
        start = after[0][0]
        # What was stored is never lost, and at most the chunk in hand is done again.
        assert last_stored(tmp_path, name) <= start <= before[-1][1], done
        assert before[-1][1] - start <= CHUNK, done
    assert done[1][0][0] >= ROWS * 40 // 100 and done[2][0][0] >= ROWS * 70 // 100
