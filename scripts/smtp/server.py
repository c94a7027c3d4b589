"""A mail server that asks for STARTTLS and a password. It refuses each notification once, as a busy server does."""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


class Printer:
    def __init__(self):
        self.refused = set()

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        headers = {name.lower(): str(value) for name, value in mail.items()}
        taken = {"headers": headers, "text": mail.get_content(), "recipients": envelope.rcpt_tos}
        print(json.dumps(taken), flush=True)
        number = headers["message-id"]
        if number.startswith("<notification-") and number not in self.refused:
            self.refused.add(number)
            return "451 try again later"
        return "250 OK"


async def serve(certificate, key, username, password):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    expected = (username.encode(), password.encode())

    def authenticate(server, session, envelope, mechanism, data):
        return AuthResult(success=(data.login, data.password) == expected, handled=False)

    handler = Printer()

    def protocol():
        return SMTP(
            handler,
            hostname="localhost",
            tls_context=tls,
            require_starttls=True,
            authenticator=authenticate,
            auth_required=True,
        )

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(serve(*sys.argv[1:]))
