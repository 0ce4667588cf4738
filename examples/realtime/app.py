"""The server: the page, a websocket for each call, and the inbox of the same runs under /inbox.

Who opens the address that is printed gets a cookie, and only pages of this address may use it.
"""

import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import FileResponse, RedirectResponse

from keyturn import App
from keyturn.core.errors import KeyturnError
from keyturn.realtime import RealtimeModelConfig, RealtimePlaybackTracker, RealtimeRunner
from keyturn.render.escape import escape
from keyturn.server.identity.first_run import first_link
from keyturn.testing.loopback.realtime import RealtimeServer

from .call import LiveCall
from .support import HEARD, SUPPORT, scripted

PAGE = Path(__file__).with_name("page")
FILES = sorted(path.name for path in PAGE.iterdir())
COOKIE = "keyturn_call"
HERE = ("127.0.0.1", "localhost")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Calls:
    """Serves calls of one agent on one journal; `token` is what opens the page."""

    def __init__(self, journal: str, token: str, model: RealtimeModelConfig | None = None) -> None:
        self.app = App([SUPPORT], journal, worker=False)
        self.token = token
        self.model = model
        self.runner: RealtimeRunner = RealtimeRunner(SUPPORT, app=self.app)
        self._live: dict[str, LiveCall] = {}

    @asynccontextmanager
    async def open(self, _web: FastAPI) -> AsyncGenerator[None]:
        """Open the journal, and a server that plays the model where no key is set."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.app)
            if self.model is None and not os.environ.get("OPENAI_API_KEY"):
                loopback = await stack.enter_async_context(RealtimeServer(scripted, heard=HEARD))
                self.model = {"url": loopback.url, "api_key": "none"}
            yield

    def knows(self, asked: Request | WebSocket) -> bool:
        """Return whether who asks was let in, by a name of this machine: no other site's name leads here."""
        given = asked.cookies.get(COOKIE, "").encode()
        return asked.url.hostname in HERE and secrets.compare_digest(given, self.token.encode())

    async def page(self, request: Request) -> Response:
        """Return the page, or let in who opens the printed address."""
        shown = request.query_params.get("token", "").encode()
        if request.url.hostname in HERE and secrets.compare_digest(shown, self.token.encode()):
            back = RedirectResponse("/", 303, HEADERS)
            back.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return back
        if not self.knows(request):
            return Response("Open the address that was printed.", 403, HEADERS)
        return FileResponse(PAGE / "index.html", headers=HEADERS)

    async def talk(self, socket: WebSocket) -> None:
        """Begin a call, or take up the run that the address names."""
        origin = socket.headers.get("origin")
        if not self.knows(socket) or origin != f"http://{socket.headers.get('host')}":
            return await socket.close(1008)
        await socket.accept()
        run = socket.query_params.get("run")
        try:
            await self._talk(socket, run)
        except KeyturnError as error:
            words = f"This call cannot be taken up: {error}"
            await socket.send_json({"type": "over", "words": escape(words)})
            await socket.close(1011)

    async def _talk(self, socket: WebSocket, run: str | None) -> None:
        if run in self._live:
            await self._live[run].leave("This call goes on in another window.")
        settings: Any = {"audio": {"input": {"transcription": {"model": "gpt-4o-mini-transcribe"}}}}
        tracker = RealtimePlaybackTracker()
        model: Any = {**(self.model or {}), "initial_model_settings": settings, "playback_tracker": tracker}
        session = await self.runner.run(resume=run, model_config=model)
        await session.enter()
        call = self._live[session.run_id] = LiveCall(self.app, session, socket, tracker)
        try:
            await call.talk()
        finally:
            if self._live.get(session.run_id) is call:
                del self._live[session.run_id]
            try:
                await session.close(end=False)  # the page may come back
            finally:
                call.ended.set()


def served(calls: Calls) -> FastAPI:
    """Return the web application of these calls."""
    web = FastAPI(lifespan=calls.open, openapi_url=None)
    web.add_api_route("/", calls.page, response_class=Response)
    web.add_api_websocket_route("/call", calls.talk)

    @web.get("/{name}")
    async def file(name: str) -> Response:
        known = name in FILES
        return FileResponse(PAGE / name, headers=HEADERS) if known else Response("Not here.", 404, HEADERS)

    web.mount("/inbox", calls.app.asgi())
    return web


def kept_token(path: Path) -> str:
    """Return the token that is kept beside the journal, so that a page finds its call after a restart."""
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe())
    return path.read_text()


def main() -> None:
    """Serve on this machine."""
    import asyncio

    import uvicorn

    journal = Path("keyturn-calls.db")
    calls = Calls(f"sqlite:///{journal}", kept_token(journal.with_suffix(".token")))

    async def serve() -> None:
        if not (await calls.app.people.directory()).place:
            print(f"inbox: http://127.0.0.1:8000/inbox/enter#{await first_link(calls.app.people, 'you')} (once)")
        print(f"call:  http://127.0.0.1:8000/?token={calls.token}", flush=True)
        config = uvicorn.Config(served(calls), "127.0.0.1", 8000, log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve()

    asyncio.run(serve())
