# A service that accepts work and works on: POST starts it, GET tells how far it is, DELETE cancels it, GET /all tells
# about all that runs. Start it with `python3 examples/accepting.py 8000`, then run the job of accept.yaml.
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

works = {}  # what GET answers, by execution id


def settle(work, rows):
    for row in range(rows):
        time.sleep(0.1)
        if work["status"] == "failed":
            return  # it was cancelled
        work.update(progress=100 * (row + 1) // rows, message=f"row {row + 1}")
    work.update(status="succeeded", result=f"{rows} rows")


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection of the polls open

    def do_POST(self):
        order, id = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.headers["execution_id"]
        if works.get(id, {}).get("status") in ("running", "succeeded"):
            return self.answer(202, works[id])  # a repeated request starts nothing
        works[id] = {"status": "running", "progress": 0}
        print("start", id, flush=True)
        threading.Thread(target=settle, args=(works[id], order["rows"]), daemon=True).start()
        self.answer(202, works[id])

    def do_GET(self):
        if self.path == "/all":
            return self.answer(200, {id: work for id, work in works.items() if work["status"] == "running"})
        work = works.get(self.headers["execution_id"])
        self.answer(200 if work else 404, work)

    def do_DELETE(self):
        print("cancel", self.headers["execution_id"], flush=True)
        work = works.get(self.headers["execution_id"])
        if work:
            work.update(status="failed", message="cancelled")
        self.answer(200 if work else 404, work)

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service)
print("port", server.server_port, flush=True)
server.serve_forever()
