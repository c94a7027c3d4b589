"""A worker and a client of a server with tokens and TLS."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import BINARY, Node, working

from punctual import Client, Context, Problem, Refused, Unreachable, Worker

KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
ADMIN = "an-administrator-of-this-test-alone"


def openssl(folder: Path, words: str) -> None:
    subprocess.run(["openssl", *shlex.split(words)], cwd=folder, check=True, capture_output=True)


async def test_a_token_and_a_certificate_are_needed(tmp_path: Path) -> None:
    openssl(tmp_path, f"req -x509 {KEY} -subj /CN=authority -keyout ca.key -out ca.pem")
    names = "-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    signed = "-CA ca.pem -CAkey ca.key -keyout server.key -out server.pem"
    openssl(tmp_path, f"req -x509 {KEY} -subj /CN=localhost {signed} {names}")
    secret = tmp_path / "admin"
    secret.write_text(ADMIN)
    for private in ("admin", "server.key"):
        (tmp_path / private).chmod(0o600)
    tls = ["--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server.key")]
    node = Node(tmp_path, "server", *tls, "--bootstrap-token-file", str(secret))
    node.start()
    url, ca = node.url.replace("http:", "https:"), tmp_path / "ca.pem"
    try:
        add = [BINARY, "--server", url, "--ca", str(ca), "--token", ADMIN, "token", "add", "w", "--role", "worker"]
        told = subprocess.run(add, capture_output=True, text=True, check=True).stdout
        token = next(word for word in told.split() if word.startswith("pct_"))
        worker = Worker(url, token=token, ca=ca)

        @worker.function("double")
        async def double(cx: Context, number: int) -> int:
            return 2 * number

        async with working(worker, ADMIN, ca) as client:
            run = await client.submit(function="double", params={"number": 21})
            assert (await client.wait(run.id, 30)).output == "42"
        with pytest.raises(Refused, match="refuses this worker"):
            await Worker(url, token="wrong", ca=ca).serve()
        async with Client(url, "wrong", ca=ca) as client:
            with pytest.raises(Problem) as refused:
                await client.run("1")
            assert refused.value.code == "unauthenticated"
        async with Client(url, ADMIN) as client:
            with pytest.raises(Unreachable, match="certificate"):
                await client.run("1")
    finally:
        node.kill()
