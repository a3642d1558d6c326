"""Secrets of credentials can be passed unquoted to command-line tools, and are unique."""

import argparse
import os
import re

from cli import listen
from commands.merchants.merchants import secret_of


def test_no_secret_is_parsed_as_an_option_on_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    listen.add_commands(parser.add_subparsers())
    for first in range(256):
        secret = secret_of(bytes([first]) + os.urandom(31))
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{42}", secret)
        words = ["listen", "http://127.0.0.1:3000/", "--client-id", "test_1", "--client-secret", secret]
        assert parser.parse_args(words).client_secret == secret


def test_different_random_bytes_give_different_secrets() -> None:
    assert len({secret_of(os.urandom(32)) for _ in range(1_000)}) == 1_000
