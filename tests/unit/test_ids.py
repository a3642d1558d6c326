"""Identifiers: never twice, whatever block of randomness they come from and whichever process asks."""

import re
import subprocess
import sys
from pathlib import Path

from runtime.ids import new_id, new_token, ordered_token, page_token

ROOT = Path(__file__).resolve().parent.parent.parent
MANY = 20_000  # dozens of blocks of randomness


def test_no_id_and_no_token_comes_twice() -> None:
    assert len({new_id() for _ in range(MANY)}) == MANY
    assert len({new_token() for _ in range(MANY)}) == MANY
    assert len({ordered_token() for _ in range(MANY)}) == MANY
    assert len({page_token() for _ in range(MANY)}) == MANY


def test_an_id_is_a_time_ordered_uuid_and_a_token_22_url_safe_characters() -> None:
    first, later = new_id(), new_id()
    assert (first.version, first.variant) == (7, "specified in RFC 4122")
    assert first.int >> 80 <= later.int >> 80
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", new_token())
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", ordered_token())
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", page_token())


def test_ordered_tokens_of_one_moment_lie_together() -> None:
    # 30 of the 48 bits of the time: the next begins every four minutes.
    assert len({ordered_token()[:5] for _ in range(MANY)}) <= 2


def test_tokens_of_pages_lie_together_by_a_thousand_and_share_nothing_else() -> None:
    tokens = [page_token() for _ in range(MANY)]
    assert len({token[:4] for token in tokens}) <= MANY // 1024 + 2
    assert len({token[4:] for token in tokens}) == MANY


# In a process of its own: forking this one, which has threads, is what Python warns of.
FORK = """
import os
from runtime.ids import new_token, page_token
new_token(), page_token()  # there is a block to inherit, and a beginning of tokens
child = os.fork()
tokens = [new_token() for _ in range(20)] + [page_token()[:4]]
os.write(1, b"".join(token.encode() + b"\\n" for token in tokens))  # in one piece: print() may write in two
if child:
    os.waitpid(child, 0)
"""


def test_a_forked_process_shares_no_randomness_with_its_parent() -> None:
    said = subprocess.run(
        [sys.executable, "-c", FORK], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    tokens = said.stdout.split()
    assert len(tokens) == 42
    assert len(set(tokens)) == 42
