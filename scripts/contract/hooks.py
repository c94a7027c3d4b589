"""What a schema cannot say: texts with a grammar of their own, what must agree with what, and that shells are real.

Only what is well formed is touched, so that a case which is wrong on purpose stays wrong.
"""

import re

import schemathesis
from hypothesis import strategies as st

CRONS = ["* * * * *", "0 1 * * *", "*/5 * * * * *", "0 9 * * MON-FRI", "0 0 L * ?", "@daily", "H H * * *"]
ZONES = ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York"]

NAME = re.compile("[A-Za-z0-9._-]{1,128}")
NAMESPACE = re.compile("[a-z0-9-]{1,128}")
REVISION = re.compile('"[0-9]{1,9}"')
NUMBER = re.compile("[1-9][0-9]*")
DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
INSTANT = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt].*")
SPAN = re.compile("([0-9]+(w|d|h|ms|m|s))+")
KEY_BYTES_MAX = 256
SEARCH = re.compile("(?s:.){2,256}")
KEY = re.compile("[^\x00-\x1f\x7f-\x9f]{1,%d}" % KEY_BYTES_MAX)
URL_BYTES_MAX = 8192

schemathesis.openapi.format("revision", st.integers(1, 5).map(lambda revision: f'"{revision}"'))
schemathesis.openapi.format("place", st.integers(0, 2**32 - 1).map(lambda number: f"4294967297-{number}"))
schemathesis.openapi.format("cron", st.sampled_from(CRONS))
schemathesis.openapi.format("iana-time-zone", st.sampled_from(ZONES))


@schemathesis.hook
def before_call(context, case, kwargs):
    path, headers, body = case.path_parameters or {}, case.headers or {}, case.body
    # Few names, so that what one request makes another one finds.
    # A token is named in the body that makes it: its address keeps that name.
    if is_text(NAME, path.get("name")) and "/tokens" not in case.operation.path:
        path["name"] = f"job-{len(path['name']) % 3}"
    if is_text(NAMESPACE, path.get("namespace")):
        path["namespace"] = "default"
    # An edit is for a new job or for one revision, and seldom for either.
    if is_text(REVISION, headers.get("If-Match")) and headers.get("If-None-Match") == "*":
        del headers["If-Match"], headers["If-None-Match"]
    if isinstance(case.query, dict):
        settle(case.query, path, case.operation.path)
    if isinstance(body, dict):
        agree(body, path, headers)
        disarm(body.get("task"))


@schemathesis.hook
def after_call(context, case, response):
    # A job may be called `validate`: then its own methods are served at this address, too, and `Allow` names them.
    if case.operation.path.endswith("/jobs/validate") and "allow" in response.headers:
        response.headers["allow"] = ["POST"]


def settle(query, path, operation):
    """Words of a query that must fit each other, or what there is; and nobody waits for the end of a run."""
    if query.get("follow") is True or query.get("follow") == "true":
        query["follow"] = "false"
    if is_text(KEY, query.get("key")):
        query["key"] = query["key"][:KEY_BYTES_MAX // 4]
    if is_text(SEARCH, query.get("search")):
        query["search"] = query["search"][:64]
        if operation.endswith("/runs"):
            query.pop("parent", None)
    if operation.endswith("/days"):
        for word in ("from", "to"):
            if is_text(DATE, query.get(word)):
                query[word] = "2026-10-" + min(query[word][8:], "28")
        if is_text(DATE, query.get("to")) and is_text(DATE, query.get("from", query["to"])):
            query["from"] = query["to"]
    if operation.endswith(("/fires", "/stats")):
        # A span that is in order, and not too long for its buckets.
        for word in ("from", "to", "since", "until"):
            if is_text(INSTANT, query.get(word)):
                del query[word]
        if is_text(SPAN, query.get("bucket")):
            query["bucket"] = "1h"
    if operation.endswith("/jobs") and is_text(NUMBER, str(query.get("last"))) and int(query["last"]) <= 100:
        query["last"] = 1
    if operation.endswith("/diff") and str(path.get("revision")) == "1":
        query.setdefault("from", 1)
    if operation.endswith("/logs") and is_text(NUMBER, str(query.get("attempt"))) and int(query["attempt"]) < 2**32:
        del query["attempt"]
    if operation.endswith("/explain") and query.get("expression") in CRONS:
        query.setdefault("spread_key", "default/job-1")
    if operation.endswith("/explain") and is_text(INSTANT, query.get("from")):
        query["from"] = "2026" + query["from"][4:].replace("02-29", "02-28")


def agree(body, path, headers):
    """What stands in two places is the same in both, and of two ways to say when only one is taken."""
    if isinstance(body.get("key"), str) and isinstance(headers.get("Idempotency-Key"), str):
        del headers["Idempotency-Key"]
    if is_text(NAME, body.get("name")) and is_text(NAME, path.get("name")):
        body["name"] = path["name"]
    if is_text(NAME, body.get("calendar")) and is_text(NAME, path.get("name")):
        body["calendar"] = path["name"]
    if is_text(NAMESPACE, body.get("namespace")) and is_text(NAMESPACE, path.get("namespace")):
        body["namespace"] = path["namespace"]
    if isinstance(body.get("due_at"), str) and isinstance(body.get("delay"), str):
        body["delay"] = None
    # An answer after more than ten seconds counts as a failure, and so long may a consumer wait for a message.
    if is_text(SPAN, body.get("wait")):
        body["wait"] = "100ms"


def disarm(task):
    """A command that could be run becomes one that does nothing, and a request goes where nobody listens."""
    if not isinstance(task, dict):
        return
    if isinstance(task.get("shell"), str) and task["shell"].strip():
        task["shell"] = "true"
    http = task.get("http")
    if isinstance(http, dict) and isinstance(http.get("url"), str) and len(http["url"]) <= URL_BYTES_MAX:
        http["url"] = "http://127.0.0.1:1/"
    process = task.get("process")
    words = process.get("command") if isinstance(process, dict) else None
    if isinstance(words, list) and words and isinstance(words[0], str) and words[0]:
        words[0] = "true"


def is_text(pattern, value):
    return isinstance(value, str) and pattern.fullmatch(value)
