"""Where the cluster is, and what it is shown: arguments, or else the variables that the command line uses, too."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

SERVER = "http://127.0.0.1:7400"


def servers(given: str | Sequence[str] | None) -> list[str]:
    """The URLs of nodes. Default: `PUNCTUAL_SERVER`, else this machine."""
    given = given if given is not None else os.environ.get("PUNCTUAL_SERVER") or SERVER
    urls = [url.strip().rstrip("/") for url in (given.split(",") if isinstance(given, str) else given)]
    for url in urls or [""]:
        if not re.fullmatch(r"https?://[^/\s]+", url):
            raise ValueError(f"server: `{url}` is not like http://host:7400")
    return urls


def token(given: str | None) -> str | None:
    return given or os.environ.get("PUNCTUAL_TOKEN") or None


def authorities(given: str | Path | None) -> Path | None:
    """A file with certificates to trust in addition to those of the system. Default: `PUNCTUAL_CA`."""
    file = given or os.environ.get("PUNCTUAL_CA")
    return Path(file) if file else None
