"""Measures how many functions that do nothing a Python worker runs in a second, and prints that as JSON.

    PUNCTUAL=target/release/punctual python sdk/python/bench/noop.py --count 20000

The runs are submitted before the worker starts. The time is the server's: from the start of the first run to the end of
the last one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from punctual import Client, Context, SyncContext, Worker

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("PUNCTUAL") or str(ROOT / "target/debug/punctual")


def work(server: str, slots: int) -> None:
    worker = Worker(server, name="bench", slots=slots)

    @worker.function("noop")
    async def noop(cx: Context) -> None: ...

    @worker.function("noop-thread")
    def noop_thread(cx: SyncContext) -> None: ...

    worker.run()


async def submit(client: Client, function: str, count: int) -> None:
    async def some(share: int) -> None:
        for _ in range(share):
            await client.submit(function=function)

    shares = [count // 32 + (index < count % 32) for index in range(32)]
    await asyncio.gather(*(some(share) for share in shares))


async def measure(server: str, function: str, count: int, slots: int) -> dict[str, object]:
    async with Client(server) as client:
        await submit(client, function, count)
        arguments = [sys.executable, __file__, "--work", server, "--slots", str(slots)]
        worker = subprocess.Popen(arguments)
        try:
            async with asyncio.timeout(300):
                while [run async for run in client.runs(state="PENDING,RUNNING")]:
                    await asyncio.sleep(0.5)
            runs = [run async for run in client.runs(state="succeeded")]
        finally:
            worker.terminate()
            worker.wait()
    starts = [run.started_at for run in runs if run.started_at]
    ends = [run.finished_at for run in runs if run.finished_at]
    seconds = (max(ends) - min(starts)).total_seconds()
    return {
        "function": function,
        "runs": len(runs),
        "slots": slots,
        "seconds": round(seconds, 3),
        "runs_per_second": round(len(runs) / seconds),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=20_000)
    options.add_argument("--slots", type=int, default=1024)
    options.add_argument("--thread", action="store_true", help="a plain function, which runs in a thread")
    options.add_argument("--work", metavar="SERVER", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work:
        return work(given.work, given.slots)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "punctual.json"
        command = [BINARY, "dev", "--data", folder, "--slots", "0"]
        node = subprocess.Popen([*command, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--log", "warn"])
        try:
            while not place.exists() or not place.read_text():
                if node.poll() is not None:
                    sys.exit(f"{BINARY} ended with {node.returncode}")
                time.sleep(0.05)
            server = json.loads(place.read_text())["url"]
            function = "noop-thread" if given.thread else "noop"
            print(json.dumps(asyncio.run(measure(server, function, given.count, given.slots))))
        finally:
            node.terminate()
            node.wait()
    return None


if __name__ == "__main__":
    main()
