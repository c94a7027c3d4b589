"""The Python worker for the conformance program."""

import asyncio
import os
import time
from pathlib import Path

from punctual import Context, Worker

worker = Worker(name=os.environ["PUNCTUAL_WORKER_NAME"], slots=int(os.environ["PUNCTUAL_SLOTS"]), drain=8)


@worker.function("conformance")
async def conformance(cx: Context, file: str, seconds: float, stubborn: bool) -> str:
    with Path(file).open("a", buffering=1) as evidence:  # noqa: ASYNC230
        print("start", file=evidence)
        print("hello")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if cx.cancelled and not stubborn:
                return "stopped"
            print("tick", file=evidence)
            await asyncio.sleep(0.05)
        print("end", file=evidence)
    return "done"


worker.run()
