"""Templates and static files, read once at import.

The public name of a static file contains a hash of its content, so browsers may cache it for ever. Litestar's own
router is not used, because it serves files by their names on disk.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import MediaType, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler
from msgspec import Struct

from domain import brazilian
from domain.instants import parse_day
from web.languages import gettext, ngettext
from web.painel import rows

_FOLDER = Path(__file__).parent
_MEDIA_TYPES = {
    # The framework adds the charset to text types.
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_CACHE_FOREVER = "public, max-age=31536000, immutable"


class Static(Struct, frozen=True):
    name: str
    content: bytes
    media_type: str


def _read_static() -> dict[str, Static]:
    files = {}
    for path in sorted((_FOLDER / "static").iterdir()):
        if path.suffix in _MEDIA_TYPES:
            content = path.read_bytes()
            name = f"{path.stem}.{sha256(content).hexdigest()[:12]}{path.suffix}"
            files[path.name] = Static(name, content, _MEDIA_TYPES[path.suffix])
    return files


_STATIC = _read_static()
_BY_NAME = {static.name: static for static in _STATIC.values()}
_FAVICON = (_FOLDER / "static" / "favicon.png").read_bytes()


def static_url(name: str) -> str:
    return f"/static/{_STATIC[name].name}"


_templates = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
    extensions=["jinja2.ext.i18n"],
)
_templates.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
_templates.globals["static_url"] = static_url
_templates.filters.update(
    brl=brazilian.signed_brl,
    day=brazilian.day,
    moment=brazilian.moment,
    moment_exact=brazilian.moment_exact,
    short_id=brazilian.short_id,
    span=brazilian.span,
    phone=brazilian.phone,
    thousands=brazilian.thousands,
    merchant_document=brazilian.merchant_document,
    boleto_line=brazilian.boleto_line,
    parse_day=parse_day,
    instant=rows.instant,
    cents=rows.cents,
    indented=rows.indented,
    reference=rows.reference,
    past_due=rows.past_due,
)


def page(
    template: str, values: Mapping[str, object], *, status: int = 200, headers: dict[str, str] | None = None
) -> Response[str]:
    """An HTML answer rendered from a template."""
    return Response(rendered(template, values), status_code=status, headers=headers, media_type=MediaType.HTML)


def rendered(template: str, values: Mapping[str, object]) -> str:
    """A template rendered as HTML."""
    return _templates.get_template(template).render(values)


@get("/static/{name:str}")
async def static_file(name: FromPath[str]) -> Response[bytes]:
    file = _BY_NAME.get(name)
    cache = _CACHE_FOREVER
    if file is None:
        # During a roll-out a page of the other version may request its file here. This version's file is better than
        # none, but must not be cached under the other version's name.
        stem, _, rest = name.partition(".")
        file = _STATIC.get(f"{stem}.{rest.rpartition('.')[2]}")
        cache = "no-store"
    if file is None:
        raise NotFoundException
    return Response(file.content, media_type=file.media_type, headers={"Cache-Control": cache})


@get("/favicon.ico")
async def favicon() -> Response[bytes]:
    return Response(_FAVICON, media_type="image/png", headers={"Cache-Control": "public, max-age=86400"})


FILE_HANDLERS: list[ControllerRouterHandler] = [static_file, favicon]
