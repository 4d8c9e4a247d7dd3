"""What a request may cost, decided before it is parsed: bytes, requests at a time, and seconds."""

import asyncio
from typing import Any

import h11
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

JSON_BYTES = 64_000
UPLOADS = 16
"""Pictures that are held in memory at a time."""
CONNECTIONS = 250
READ_SECONDS = 20.0
"""From the first byte of a request, or the opening of its connection, to its last byte."""
ANSWER_SECONDS = 60.0
"""From the last byte of a request to the last byte of its answer."""
IDLE_SECONDS = 30
"""From an answer to the next request on the same connection."""


class BodyLimit:
    """Reads at most so many bytes of a request, and gives the application whole requests only.

    Args:
        app: never hears of a visitor who leaves in the middle of a request.
        uploads: how many bytes may be posted to which path; all other requests have at most `JSON_BYTES`.
    """

    def __init__(self, app: ASGIApp, uploads: dict[str, int]):
        self.app, self.uploads, self.under_way = app, uploads, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["method"] != "POST" or scope["path"] not in self.uploads:
            await self._limited(JSON_BYTES, scope, receive, send)
        elif self.under_way >= UPLOADS:
            text = "many pictures are being read at the moment: try again in a few seconds"
            await JSONResponse({"error": text}, status_code=503)(scope, receive, send)
        else:
            self.under_way += 1
            try:
                await self._limited(self.uploads[scope["path"]], scope, receive, send)
            finally:
                self.under_way -= 1

    async def _limited(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = JSONResponse({"error": f"this is more than {_size(most)}: send less"}, status_code=413)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 20 or int(length) > most:
            await refusal(scope, receive, send)
            return
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                await refusal(scope, receive, send)
                return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]
        del body

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)


class Connection(H11Protocol):
    """One of uvicorn's connections, with an end.

    uvicorn waits for ever for the rest of a request, and for a visitor to read an answer. It counts open connections
    against `limit_concurrency`, so that a few hundred silent ones would shut everybody out. Here all of it takes a
    limited time, and where `CONNECTIONS` are open, the one that is silent for longest makes room for the next.
    """

    since = 0.0
    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._allow(READ_SECONDS)
        if len(self.connections) > CONNECTIONS:
            waiting = [other for other in self.connections if isinstance(other, Connection) and other.is_waiting()]
            silent = min(waiting, key=lambda other: other.since)  # this one itself is always among those waiting
            self.connections.discard(silent)
            silent.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.deadline is None:
            self._allow(READ_SECONDS)
        waited = self.is_waiting()
        super().data_received(data)
        if waited and not self.is_waiting():
            self._allow(ANSWER_SECONDS)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        idle = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        self._allow(None if idle else READ_SECONDS if self.is_waiting() else ANSWER_SECONDS)

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()  # uvicorn would wait until what was answered is read

    def connection_lost(self, exc: Exception | None) -> None:
        self._allow(None)
        super().connection_lost(exc)

    def is_waiting(self) -> bool:
        """Whether it is the visitor's turn."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _allow(self, seconds: float | None) -> None:
        """Close the connection after this time, unless another call comes first."""
        if self.deadline is not None:
            self.deadline.cancel()
        self.since = self.loop.time()
        self.deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def _size(count: int) -> str:
    """
    >>> _size(64_000), _size(8_000_000)
    ('64 kB', '8 MB')
    """
    return f"{count // 1_000_000} MB" if count >= 1_000_000 else f"{count // 1000} kB"
