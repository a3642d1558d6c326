"""The application that each process of `quita serve` runs: the API and the pages of all cells."""

from cli.run.asgi_front import make_front
from cli.run.cells import CellRouter
from runtime.log import setup
from runtime.settings import read_settings
from runtime.tracing.traces import Traces


def make() -> CellRouter:
    settings = read_settings()
    tracing = settings.watching.tracing
    setup("api", traced=None if tracing is None else tracing.share)
    return CellRouter(settings, make_front, None if tracing is None else Traces(tracing, "quita-api"))


app = make()
