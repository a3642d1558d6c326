"""Identifiers are unique, across blocks of randomness and across processes."""

import re
import subprocess
import sys
from pathlib import Path

from runtime.ids import new_id, new_token, ordered_token, page_token

ROOT = Path(__file__).resolve().parent.parent.parent
COUNT = 20_000  # takes dozens of blocks of randomness


def test_no_id_and_no_token_comes_twice() -> None:
    assert len({new_id() for _ in range(COUNT)}) == COUNT
    assert len({new_token() for _ in range(COUNT)}) == COUNT
    assert len({ordered_token() for _ in range(COUNT)}) == COUNT
    assert len({page_token() for _ in range(COUNT)}) == COUNT


def test_an_id_is_a_time_ordered_uuid_and_a_token_22_url_safe_characters() -> None:
    first, later = new_id(), new_id()
    assert (first.version, first.variant) == (7, "specified in RFC 4122")
    assert first.int >> 80 <= later.int >> 80
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", new_token())
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", ordered_token())
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", page_token())


def test_ordered_tokens_of_the_same_time_have_the_same_beginning() -> None:
    # Five characters are 30 of the 48 bits of the time: they change every four minutes.
    assert len({ordered_token()[:5] for _ in range(COUNT)}) <= 2


def test_a_thousand_page_tokens_share_their_beginning_and_nothing_else() -> None:
    tokens = [page_token() for _ in range(COUNT)]
    assert len({token[:4] for token in tokens}) <= COUNT // 1024 + 2
    assert len({token[4:] for token in tokens}) == COUNT


# Runs in a process of its own: Python warns when a process with threads, like this one, forks. Of a beginning of tokens
# only 12 bits are random, so that two processes may well have the same one, but hardly four.
FORK = """
import os
from runtime.ids import new_token, page_token
new_token(), page_token()  # so that the children inherit a block of randomness and a beginning of tokens
children = []
while len(children) < 3 and 0 not in children:
    children.append(os.fork())
tokens = [new_token() for _ in range(20)] + [page_token()[:4]]
os.write(1, " ".join(tokens).encode() + b"\\n")  # one write: print() may write in two
if 0 not in children:
    for child in children:
        os.waitpid(child, 0)
"""


def test_a_forked_process_shares_no_randomness_with_its_parent() -> None:
    result = subprocess.run(
        [sys.executable, "-c", FORK], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    of_each = [line.split() for line in result.stdout.splitlines()]
    assert [len(tokens) for tokens in of_each] == [21] * 4
    assert len({token for tokens in of_each for token in tokens[:20]}) == 80
    assert len({tokens[20] for tokens in of_each}) > 1
