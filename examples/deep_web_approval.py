"""A page at which somebody decides for a deep agent: what waits is shown as it is, and decided by buttons.

It needs `pip install starlette uvicorn`. Run `python examples/deep_web_approval.py`, and open the address that it says.
"""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import escape
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from keyturn import App, Conflict, NotPending
from keyturn.deep import create_deep_agent
from keyturn.render.html import render
from keyturn.testing import ScriptedModel, function_call

SCRIPT = {"path": "/backup.sh", "content": "#!/bin/sh\ntar -czf /b.tgz <data> &\n"}
MODEL = ScriptedModel([function_call("write_file", SCRIPT), "I wrote it."])
office = App([create_deep_agent(MODEL, interrupt_on={"write_file": True}, name="ops")], "memory://")
TOKEN = secrets.token_urlsafe()  # in place of your own login: who knows it may decide
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
FORM = """<h2>{tool}</h2>{shown}<form method="post" action="/decide">
<input type="hidden" name="token" value="{token}"><input type="hidden" name="id" value="{id}">
<input type="hidden" name="digest" value="{digest}"><input name="message" placeholder="why not">
<button name="say" value="approve">Approve</button> <button name="say" value="reject">Reject</button></form>"""


def is_known(request: Request, token: str) -> bool:
    ours = request.url.hostname in ("127.0.0.1", "localhost")  # no other site's name leads here
    return ours and secrets.compare_digest(token.encode(), TOKEN.encode())


async def inbox(request: Request) -> Response:
    if not is_known(request, request.query_params.get("token", "")):
        return HTMLResponse("Open the address that was printed.", 403, HEADERS)
    forms = [
        FORM.format(
            tool=escape(row.tool), shown=render(row.request.preview), token=TOKEN, id=row.id, digest=row.request.digest
        )
        for row in await office.inbox.list()
    ]
    page = "".join(forms) or "<p>No pending requests.</p>"
    return HTMLResponse(f"<!doctype html><title>Approvals</title>{page}", headers=HEADERS)


async def decide(request: Request) -> Response:
    said = {name: values[-1] for name, values in parse_qs((await request.body()).decode()).items()}
    if not is_known(request, said.get("token", "")) or said.get("say") not in ("approve", "reject"):
        return HTMLResponse("This was not decided.", 403, HEADERS)
    try:  # the digest says what the person saw
        if said["say"] == "approve":
            await office.inbox.approve(said.get("id", ""), digest=said.get("digest", ""), by="web")
        else:
            message = said.get("message", "No.")
            await office.inbox.reject(said.get("id", ""), digest=said.get("digest", ""), by="web", message=message)
    except (Conflict, NotPending) as error:
        return HTMLResponse(escape(str(error)), 409, HEADERS)
    return RedirectResponse(f"/?token={TOKEN}", 303, HEADERS)


@asynccontextmanager
async def lifespan(_web: Starlette) -> AsyncGenerator[None]:
    async with office:  # its worker lives as long as the server
        await office.start("ops", "Make a backup script.")
        yield


ROUTES = [Route("/", inbox), Route("/decide", decide, methods=["POST"])]
web = Starlette(routes=ROUTES, lifespan=lifespan)


def main() -> None:
    import uvicorn

    print(f"http://127.0.0.1:8000/?token={TOKEN}")
    uvicorn.run(web, host="127.0.0.1", port=8000, access_log=False)


if __name__ == "__main__":
    main()
