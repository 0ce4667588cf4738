"""Let the pages be installed on a phone: a manifest, and a service worker for push messages only."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from .pages import STATIC, static_path

router = APIRouter(include_in_schema=False)


@router.get("/manifest.webmanifest")
async def manifest(request: HttpRequest) -> Response:
    """Say what a phone installs."""
    root = request.scope.get("root_path", "")
    icons = [
        {"src": f"{root}{static_path()}/icon-{size}.png", "sizes": f"{size}x{size}", "type": "image/png"}
        for size in (180, 192, 512)
    ]
    told = {
        "name": "Keyturn",
        "short_name": "Keyturn",
        "start_url": f"{root}/",
        "scope": f"{root}/",
        "display": "standalone",
        "background_color": "#fbfaf8",
        "theme_color": "#191a1d",
        "icons": icons,
    }
    return JSONResponse(told, media_type="application/manifest+json")


@router.get("/push.js")
async def service_worker(request: HttpRequest) -> Response:
    """Return the service worker: it stands at the root of the pages, since it acts for all of them."""
    headers = {"service-worker-allowed": f"{request.scope.get('root_path', '')}/"}
    return Response((STATIC / "push.js").read_bytes(), media_type="text/javascript", headers=headers)
