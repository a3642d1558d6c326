"""One API process as `quita serve` runs it, with the additional routes that benches compare the API with."""

import os
import sys
from typing import Any

from litestar import get

from api.answers import Answer
from api.app import make_api
from api.handlers import answer_hot_routes_first
from api.route import Route
from api.routes import pix
from bench.naive import create_naively
from bench.plain import ROUTES as PLAIN_ROUTES
from cli.run import asgi
from cli.run.asgi_front import Front
from cli.run.serve import one_process
from runtime.log import AccessLog
from runtime.metrics import Meter
from runtime.settings import read_settings
from web.app import make_app


@get("/bench/process", include_in_schema=False)
async def process() -> Answer:
    return Answer(b"%d" % os.getpid())


def naive_route() -> Route:
    """The route of bench/naive.py, with the real route's admission: token, rate limit, scope, key, JSON."""
    return Route(
        method="POST",
        path="/bench/naive",
        name="createNaively",
        summary="",
        handle=create_naively,
        hot=True,
        scopes=("charges:create",),
        key=True,
        body=pix.CreatePix,
    )


def make() -> Any:
    api = make_api(read_settings(), access_log=AccessLog(), also=[process, *PLAIN_ROUTES])
    api.asgi_handler = answer_hot_routes_first(
        api.asgi_handler, [naive_route()], lambda: api.state.context, Meter(None)
    )
    return Front(api, make_app())


if __name__ == "__main__":
    asgi.app = make()
    sys.exit(one_process(int(sys.argv[1])))
