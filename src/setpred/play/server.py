"""One server for the page and for what it asks; no request leaves anything behind for the next."""

import json
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ..errors import UsageError
from .guide import guide_page
from .lab import SUBJECTS, LabRequest, look
from .limits import BodyLimit
from .points import PointsRequest, decode_points
from .pretrained import FOLDER
from .scenes import rendered_scene, uploaded_scene
from .uploads import MAX_BYTES

PAGE = Path(__file__).parent / "page"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

Steps = Annotated[int, Query(ge=1, le=200)]


def make_app(runs: Sequence[Path] = (), hosts: Sequence[str] = ("*",)) -> FastAPI:
    """The playground as an ASGI application.

    Args:
        runs: run folders to show.
        hosts: names under which it may be asked for; a page elsewhere cannot reach it under a name of its own.
    """
    app = FastAPI(title="setpred playground", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit, most=MAX_BYTES)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.exception_handler(UsageError)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse_values)
    app.middleware("http")(_with_headers)
    shown = _load(runs)
    cores = CapacityLimiter(os.cpu_count() or 1)
    threading.Thread(target=_warm_up, daemon=True).start()

    async def computed(function: Callable[..., Any], *arguments: Any) -> Response:
        """The answer, once a core is free for it: more at a time would only wait for each other."""
        return await to_thread.run_sync(lambda: answer(function(*arguments)), limiter=cores)

    @app.get("/api/about")
    def about() -> Response:
        """What the page needs to know before anything is asked."""
        subjects = {name: {"title": subject.title, "dim": subject.dim} for name, subject in SUBJECTS.items()}
        return answer({"subjects": subjects, "trained": trained(), "runs": [run.about() for run in shown]})

    @app.post("/api/points")
    async def points(request: PointsRequest) -> Response:
        return await computed(decode_points, request)

    @app.get("/api/scenes/{index}")
    async def scene(index: Annotated[int, InPath(ge=0, lt=1_000_000)], steps: Steps = 40) -> Response:
        return await computed(rendered_scene, index, steps)

    @app.post("/api/scenes")
    async def upload(request: Request, steps: Steps = 40) -> Response:
        return await computed(uploaded_scene, await request.body(), steps)

    @app.post("/api/lab")
    async def lab(request: LabRequest) -> Response:
        return await computed(look, request)

    @app.get("/api/runs/{number}/{example}")
    async def run(number: int, example: int, steps: Steps = 40) -> Response:
        if not 0 <= number < len(shown):
            raise UsageError(f"there is no run {number}: {len(shown)} were named when the playground was started")
        return await computed(shown[number].example, example, steps)

    @app.get("/docs/playground", response_class=HTMLResponse)
    def guide() -> str:
        return guide_page()

    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


def _warm_up() -> None:
    """Load the models and compile the kernels while the first visitor is still looking for the mouse."""
    decode_points(PointsRequest(points=[(0.0, 0.0)], iterations=1))
    rendered_scene(0, 1)


def answer(content: Any) -> Response:
    """JSON without the checks that an arbitrary object would need: these are plain already."""
    return Response(json.dumps(content, separators=(",", ":"), allow_nan=False), media_type="application/json")


def trained() -> dict[str, Any]:
    """What is known of the training of each model in the package."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*/trained.json"))}


def _load(runs: Sequence[Path]) -> list[Any]:
    if not runs:
        return []
    try:
        from .runs import ShownRun  # loads what trains models
    except ModuleNotFoundError as error:
        raise UsageError(f"showing a run needs {error.name}: pip install 'setpred[train]'") from None
    return [ShownRun(run) for run in runs]


async def _refuse(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


async def _refuse_values(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return JSONResponse({"error": f"{where}: {first['msg']}"}, status_code=400)


async def _with_headers(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await proceed(request)
    response.headers.update(HEADERS)
    return response
