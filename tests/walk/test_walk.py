"""Whatever merchants, payers and the bank do, in any order: the books and every answer are as the model says.

WALK_EXAMPLES walks of WALK_STEPS steps each. A failing walk is shrunk and printed as the steps that lead to the
failure, which takes minutes: WALK_SHRINK=0 prints the first failing walk as found. WALK_SEED chooses other walks.
"""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.walk.steps import Stage, Walk

pytestmark = pytest.mark.slow

FULL = os.environ.get("FAULT") == "full"
EXAMPLES = int(os.environ.get("WALK_EXAMPLES", "100" if FULL else "5"))
STEPS = int(os.environ.get("WALK_STEPS", "60" if FULL else "40"))
SEED = int(os.environ.get("WALK_SEED", "1"))
SHRINK = os.environ.get("WALK_SHRINK", "1") == "1"


@pytest.fixture
def stage(servers: Any) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        opened = Stage(runner, servers)
        yield opened
        opened.drop()


def test_after_any_walk_the_books_and_every_answer_match_the_model(stage: Stage) -> None:
    Walk.stage = stage
    Walk.steps.clear()
    print(f"WALK_SEED={SEED} WALK_EXAMPLES={EXAMPLES} WALK_STEPS={STEPS}")
    run_state_machine_as_test(
        seed(SEED)(Walk),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=(Phase.generate, Phase.shrink) if SHRINK else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(*(f"{count:6} {step}" for step, count in sorted(Walk.steps.items())), sep="\n")
