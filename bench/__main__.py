"""`python -m bench [names] [--seconds N] [--json]`: run scenarios one after the other and print what they found.

Every number is measured on this machine in this run; compare ratios, which were measured side by side, and
not rates. An aim that is missed is told as MISSED, and the exit code is 0 all the same: a machine that does something
else beside it misses some. `python -m bench locust` drives a whole running system instead.
"""

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec
import uvloop

from bench import merchant_mix
from bench.bank_pace import bank_burst, bank_pace, bank_payments, bank_standstill
from bench.boletos import boletos, printing
from bench.bytes import bytes_per_charge
from bench.connections import connections
from bench.cost import cost
from bench.creation import against_empty, against_naive, ordered
from bench.deliveries import deliveries
from bench.environment import BenchEnvironment, open_environment
from bench.growth import growth
from bench.hot_account import hot_account
from bench.images import images
from bench.jobs import jobs
from bench.lookup import lookup
from bench.merchants import merchants
from bench.report import Shown
from bench.reports import reports
from bench.slowloris import slowloris
from bench.start import start
from bench.statements import statements
from runtime.limits.cycles import look_for_cycles_rarely


class Scenario(NamedTuple):
    title: str
    run: Callable[[BenchEnvironment, float], Awaitable[Sequence[Shown]]]
    needs_api: bool = True


SCENARIOS = {
    "creation": Scenario("Creating a PIX charge against routes that do nothing", against_empty),
    "ordered": Scenario("Creating a PIX charge whose bank is asked by an order", ordered, needs_api=False),
    "naive": Scenario("Creating a PIX charge against the naive way", against_naive),
    "lookup": Scenario("Looking charges up against routes that do nothing", lookup),
    "statements": Scenario("The statements of both on PostgreSQL alone", statements),
    "hot-account": Scenario("Payments on one account", hot_account, needs_api=False),
    "boletos": Scenario("Issuing boletos at a bank that takes 200 ms", boletos),
    "bank-pace": Scenario("PIX at a bank that takes 200 ms (in full: --seconds 300)", bank_pace),
    "bank-burst": Scenario("A burst of PIX out of the reserve", bank_burst),
    "bank-payments": Scenario("Payments from callbacks at a bank that takes 200 ms", bank_payments),
    "bank-standstill": Scenario("PIX of six hours without a worker", bank_standstill, needs_api=False),
    "images": Scenario("QR images", images, needs_api=False),
    "printing": Scenario("Printing boletos", printing, needs_api=False),
    "deliveries": Scenario("Telling merchants: webhooks", deliveries, needs_api=False),
    "jobs": Scenario("The queue of arq", jobs, needs_api=False),
    "reports": Scenario("Reports over a year", reports, needs_api=False),
    "merchants": Scenario("A worker's rounds by the number of merchants", merchants, needs_api=False),
    "growth": Scenario("The same work on a small and on a large database", growth, needs_api=False),
    "bytes": Scenario("What a charge leaves behind", bytes_per_charge),
    "cost": Scenario("What one creation costs", cost),
    "connections": Scenario("Connections with deadlines and bounds", connections, needs_api=False),
    "slowloris": Scenario("Creating charges beside 3,000 slow connections", slowloris),
    "start": Scenario("Starting everything", start, needs_api=False),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(SCENARIOS)}; or locust, alone")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each comparison (20)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--base-url", help="locust: a system that runs already (else one is started)")
    parser.add_argument("--rate", type=int, default=600, help="locust: requests per second to hold (600)")
    args = parser.parse_args()
    names = args.names or list(SCENARIOS)
    if names == ["locust"]:
        return merchant_mix.run(args.base_url, seconds=args.seconds, rate=args.rate, as_json=args.json)
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and their home are removed too
    machine = _machine()
    findings: dict[str, Sequence[Shown]] = {}
    if not args.json:
        print(machine, flush=True)
    for name in names:
        findings[name] = _run(SCENARIOS[name], args.seconds)
        if not args.json:
            print(f"\n{SCENARIOS[name].title} ({name})")
            print("\n".join(finding.line() for finding in findings[name]), flush=True)
    if args.json:
        print(json.dumps({"machine": machine, "found": msgspec.to_builtins(findings)}, indent=2))
    return 0


def _run(scenario: Scenario, seconds: float) -> Sequence[Shown]:
    """Runs a scenario in an environment of its own, so that its leftovers do not burden the next one."""

    async def measure(environment: BenchEnvironment) -> Sequence[Shown]:
        look_for_cycles_rarely()  # as in the service's processes, whose work some benches do in this process
        return await scenario.run(environment, seconds)

    with open_environment() as environment:
        if not scenario.needs_api:
            return uvloop.run(measure(environment))
        with environment.api():
            return uvloop.run(measure(environment))


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return (
        f"{cores} cores, shared by client, API (API_PROCESSES, default 2), PostgreSQL 18 with fsync and Valkey; "
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"load before {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
