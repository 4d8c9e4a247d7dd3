"""One server for the page, its guide and what it asks; no request leaves anything behind for the next."""

import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from markdown_it import MarkdownIt
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import UsageError
from .limits import CONNECTIONS, IDLE_SECONDS, BodyLimit, Connection
from .scenes_tab import MAX_BYTES, rendered_scene, uploaded_scene
from .zoo import FOLDER, weights_module

HERE = Path(__file__).parent
# Beside this file where the package is installed, in docs/ where it is worked on.
GUIDES = (HERE / "playground.md", HERE.parents[2] / "docs" / "playground.md")

GUIDE_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>setpred playground: guide</title><link rel="stylesheet" href="style.css"></head>
<body class="guide"><p><a href="./">← playground</a></p>{}</body>
</html>
"""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

LONGEST = 300
"""Characters of an error."""

Steps = Annotated[int, Query(ge=1, le=200)]


def make_app(runs: Sequence[Path] = (), hosts: Sequence[str] = ("*",)) -> FastAPI:
    """The playground as an ASGI application.

    Args:
        runs: run folders to show.
        hosts: names under which it may be asked for; a page elsewhere cannot reach it under a name of its own.
    """
    app = FastAPI(title="setpred playground", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit, uploads={"/api/scenes": MAX_BYTES})
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.exception_handler(UsageError)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse_values)
    app.add_middleware(WithHeaders)
    shown = _load(runs)
    cores = CapacityLimiter(os.cpu_count() or 1)
    threading.Thread(target=_warm_up, daemon=True).start()

    async def computed(request: Request, function: Callable[..., Any], *arguments: Any) -> Response:
        """The answer, once a core is free for it: more at a time would only wait for each other."""
        await request.body()
        async with cores:
            if await request.is_disconnected():
                return Response()
            return await to_thread.run_sync(lambda: answer(function(*arguments)))

    @app.get("/api/about")
    def about() -> Response:
        """What the page needs to know before anything is asked."""
        return answer({"trained": trained(), "runs": [run.about() for run in shown]})

    @app.get("/weights.js")
    def weights() -> Response:
        return Response(weights_module(), media_type="text/javascript")

    @app.get("/api/scenes/{index}")
    async def scene(request: Request, index: Annotated[int, InPath(ge=0, lt=1_000_000)], steps: Steps = 40) -> Response:
        return await computed(request, rendered_scene, index, steps)

    @app.post("/api/scenes")
    async def upload(request: Request, steps: Steps = 40) -> Response:
        return await computed(request, uploaded_scene, await request.body(), steps)

    @app.get("/api/runs/{number}/{example}")
    async def run(request: Request, number: int, example: int, steps: Steps = 40) -> Response:
        if not 0 <= number < len(shown):
            raise UsageError(f"there is no run {number}: {len(shown)} were named when the playground was started")
        return await computed(request, shown[number].example, example, steps)

    @app.get("/playground.html", response_class=HTMLResponse)
    def guide() -> str:
        return guide_page()

    app.mount("/", StaticFiles(directory=HERE / "page", html=True))
    return app


def configured(app: FastAPI) -> uvicorn.Config:
    """How uvicorn serves the playground: with an end to every connection, and a limit to what is under way."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="error",  # a warning tells of what a visitor did, as often as visitors like
        timeout_keep_alive=IDLE_SECONDS,
        limit_concurrency=2 * CONNECTIONS,  # counts requests whose visitors have left, too
    )


@cache
def guide_page() -> str:
    """The guide, docs/playground.md, as a page that needs no network, with an anchor at every heading.

    Its pictures, which show the playground itself, are left out.
    """
    source = next((path for path in GUIDES if path.exists()), None)
    text = source.read_text(encoding="utf-8") if source else "The guide is not part of this installation."
    parser = MarkdownIt().enable("table")
    text = re.sub(r"!\[[^]]*\]\([^)]*\)(\{[^}]*\})?", "", text)
    # The playground lies elsewhere in the documentation, and its other pages are not here.
    text = re.sub(r"\[([^]]*)\]\([^):]*\.md[^)]*\)", r"\1", text.replace("(play/index.html", "(./"))
    tokens = parser.parse(text)
    for heading, title in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", re.sub(r"[^a-z0-9]+", "-", title.content.lower()).strip("-"))
    return GUIDE_PAGE.format(parser.renderer.render(tokens, parser.options, {}))


def _warm_up() -> None:
    """Load the models and compile the kernels while the first visitor is still looking for the mouse."""
    rendered_scene(0, 1)


def answer(content: Any) -> Response:
    """JSON without the checks that an arbitrary object would need: these are plain already."""
    return Response(json.dumps(content, separators=(",", ":"), allow_nan=False), media_type="application/json")


def trained() -> dict[str, Any]:
    """What is known of the training of each model in the package."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*/trained.json"))
    }


def _load(runs: Sequence[Path]) -> list[Any]:
    if not runs:
        return []
    try:
        from .runs_tab import ShownRun  # loads what trains models
    except ModuleNotFoundError as error:
        raise UsageError(f"showing a run needs {error.name}: pip install 'setpred[train]'") from None
    return [ShownRun(run) for run in runs]


async def _refuse(request: Request, error: Exception) -> Response:
    text = str(error)  # which may repeat what was sent
    return JSONResponse({"error": text if len(text) <= LONGEST else text[:LONGEST] + "…"}, status_code=400)


async def _refuse_values(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = first["loc"][1:]
    return await _refuse(request, UsageError(": ".join(filter(None, [".".join(map(str, where)), first["msg"]]))))


class WithHeaders:
    """Adds headers to every answer."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)
