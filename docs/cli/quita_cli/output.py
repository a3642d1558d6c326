"""The output of commands: a line for people, or JSON for programs."""

import argparse
import json
from collections.abc import Callable, Iterable
from typing import Any


def show(args: argparse.Namespace, record: Any, line: str) -> None:
    print(json.dumps(record, ensure_ascii=False) if args.json else line, flush=True)


def show_rows(args: argparse.Namespace, rows: Iterable[dict[str, Any]], line: Callable[[dict[str, Any]], str]) -> None:
    for row in rows:
        show(args, row, line(row))
