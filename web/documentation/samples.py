"""A call of the API in four programming languages, each with its own standard library only: ready to be pasted, once
the environment variables are set."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

LANGUAGES: Final = ("curl", "Python", "Node.js", "PHP")
_VARIABLE: Final = re.compile(r"\$([A-Z_]+)")
_FORM: Final = "application/x-www-form-urlencoded"


class SampleCall(Struct, frozen=True, kw_only=True):
    """A call to show. `path` has `$VARIABLES`, and so may the texts of `body`. `media_type` is the body's, empty
    without a body."""

    method: str
    base_url: str
    path: str
    body: Mapping[str, Any] | None
    media_type: str
    keyed: bool
    saves_file: bool
    """Whether the answer is a file, not JSON."""

    @property
    def headers(self) -> dict[str, str]:
        """The request's headers, with `$VARIABLES`. A call of the token endpoint sends client id and secret instead of
        a token."""
        if self.media_type == _FORM:
            return {"Content-Type": _FORM}
        sent = {"Authorization": "Bearer $TOKEN"}
        if self.keyed:
            sent["Idempotency-Key"] = "$KEY"
        if self.body is not None:
            sent["Content-Type"] = "application/json"
        return sent


def samples_of(call: SampleCall) -> tuple[tuple[str, str], ...]:
    """The name of each language and the call's text in it, in the order of LANGUAGES."""
    return tuple(zip(LANGUAGES, (_curl(call), _python(call), _node(call), _php(call)), strict=True))


def _curl(call: SampleCall) -> str:
    lines = [f'curl "{call.base_url}{call.path}"']
    if call.method == "PATCH" or (call.method == "POST" and call.body is None and call.media_type != _FORM):
        lines[0] = f'curl -X {call.method} "{call.base_url}{call.path}"'
    if call.media_type == _FORM:
        return " \\\n".join([*lines, '  -u "$CLIENT_ID:$CLIENT_SECRET"', "  -d grant_type=client_credentials"])
    lines += [f'  -H "{name}: {value}"' for name, value in call.headers.items()]
    if call.body is not None:
        text = json.dumps(call.body, ensure_ascii=False, indent=2).replace("\n", "\n     ")
        # A variable is put outside of the single quotes, so that the shell expands it.
        lines.append(f"  -d '{_VARIABLE.sub(_out_of_quotes, text)}'")
    if call.saves_file:
        lines.append("  -OJ")
    return " \\\n".join(lines)


def _out_of_quotes(variable: re.Match[str]) -> str:
    return f"""'"{variable[0]}"'"""


def _python(call: SampleCall) -> str:
    lines = ["import json" if not call.saves_file else "import os", "import os", "import urllib.request"]
    if call.media_type == _FORM:
        lines.append("from urllib.parse import urlencode")
    data = ""
    if call.media_type == _FORM:
        data = (
            "    data=urlencode({\n"
            '        "grant_type": "client_credentials",\n'
            '        "client_id": os.environ["CLIENT_ID"],\n'
            '        "client_secret": os.environ["CLIENT_SECRET"],\n'
            "    }).encode(),"
        )
    elif call.body is not None:
        data = f"    data=json.dumps({_literal(call.body, _PYTHON, 1)}).encode(),"
    elif call.method == "POST":
        data = '    data=b"",'
    headers = ", ".join(f'"{name}": {_python_text(value)}' for name, value in call.headers.items())
    lines += ["", "request = urllib.request.Request(", f"    {_python_text(call.base_url + call.path)},"]
    if call.method == "PATCH":
        lines.append('    method="PATCH",')
    lines.append(f"    headers={{{headers}}},")
    lines += [data] if data else []
    lines += [")", "with urllib.request.urlopen(request, timeout=30) as answer:"]
    if call.saves_file:
        lines += ['    with open("boleto.pdf", "wb") as file:', "        file.write(answer.read())"]
    else:
        lines.append("    print(json.load(answer))")
    return "\n".join(dict.fromkeys(lines[:3])) + "\n" + "\n".join(lines[3:])


def _node(call: SampleCall) -> str:
    lines = []
    if call.saves_file:
        lines += ['import { writeFile } from "node:fs/promises";', ""]
    lines.append(f"const answer = await fetch({_node_text(call.base_url + call.path)}, {{")
    if call.method != "GET":
        lines.append(f'  method: "{call.method}",')
    headers = ", ".join(f'"{name}": {_node_text(value)}' for name, value in call.headers.items())
    lines.append(f"  headers: {{ {headers} }},")
    if call.media_type == _FORM:
        lines += [
            "  body: new URLSearchParams({",
            '    grant_type: "client_credentials",',
            "    client_id: process.env.CLIENT_ID,",
            "    client_secret: process.env.CLIENT_SECRET,",
            "  }),",
        ]
    elif call.body is not None:
        lines.append(f"  body: JSON.stringify({_literal(call.body, _NODE, 1)}),")
    lines.append("});")
    if call.saves_file:
        lines.append('await writeFile("boleto.pdf", Buffer.from(await answer.arrayBuffer()));')
    else:
        lines.append("console.log(await answer.json());")
    return "\n".join(lines)


def _php(call: SampleCall) -> str:
    headers = ", ".join(_php_text(f"{name}: {value}") for name, value in call.headers.items())
    lines = [
        "<?php",
        "$context = stream_context_create(['http' => [",
        f"    'method' => '{call.method}',",
        f"    'header' => [{headers}],",
    ]
    if call.media_type == _FORM:
        lines += [
            "    'content' => http_build_query([",
            "        'grant_type' => 'client_credentials',",
            "        'client_id' => getenv('CLIENT_ID'),",
            "        'client_secret' => getenv('CLIENT_SECRET'),",
            "    ]),",
        ]
    elif call.body is not None:
        lines.append(f"    'content' => json_encode({_literal(call.body, _PHP, 1)}),")
    lines += ["    'ignore_errors' => true,", "]]);"]
    lines.append(f"$answer = file_get_contents({_php_text(call.base_url + call.path)}, false, $context);")
    output = "file_put_contents('boleto.pdf', $answer);" if call.saves_file else "print_r(json_decode($answer, true));"
    return "\n".join([*lines, output])


class _Dialect(Struct, frozen=True):
    text: Callable[[str], str]
    words: dict[Any, str]
    opens: str
    closes: str
    gives: str
    """The text between a key and its value."""


def _literal(value: Any, dialect: _Dialect, depth: int) -> str:
    """A JSON value as a literal of the language, each field on a line of its own."""
    if isinstance(value, str):
        return dialect.text(value)
    if value is None or isinstance(value, bool):
        return dialect.words[value]
    if isinstance(value, Mapping):
        pad = "    " * (depth + 1)
        lines = [
            f"{pad}{dialect.text(name)}{dialect.gives}{_literal(each, dialect, depth + 1)},"
            for name, each in value.items()
        ]
        return (
            "\n".join([dialect.opens, *lines, "    " * depth + dialect.closes])
            if lines
            else dialect.opens + dialect.closes
        )
    if isinstance(value, list):
        return "[" + ", ".join(_literal(each, dialect, depth) for each in value) + "]"
    return json.dumps(value)


def _python_text(text: str) -> str:
    variable = _VARIABLE.fullmatch(text)
    if variable:
        return f'os.environ["{variable[1]}"]'
    quoted = json.dumps(text, ensure_ascii=False)
    return "f" + _VARIABLE.sub(r"{os.environ['\1']}", quoted) if _VARIABLE.search(text) else quoted


def _node_text(text: str) -> str:
    variable = _VARIABLE.fullmatch(text)
    if variable:
        return f"process.env.{variable[1]}"
    if _VARIABLE.search(text):
        return "`" + _VARIABLE.sub(r"${process.env.\1}", text) + "`"
    return json.dumps(text, ensure_ascii=False)


def _php_text(text: str) -> str:
    parts = _VARIABLE.split(text)
    literals = [f"getenv('{part}')" if index % 2 else "'" + part.replace("\\", "\\\\").replace("'", "\\'") + "'"
               for index, part in enumerate(parts)]  # fmt: skip
    return " . ".join(each for each in literals if each != "''") or "''"


_PYTHON: Final = _Dialect(_python_text, {None: "None", True: "True", False: "False"}, "{", "}", ": ")
_NODE: Final = _Dialect(_node_text, {None: "null", True: "true", False: "false"}, "{", "}", ": ")
_PHP: Final = _Dialect(_php_text, {None: "null", True: "true", False: "false"}, "[", "]", " => ")
