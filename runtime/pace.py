"""How much is done at once, and how much is kept ready: settings with measured defaults (docs/settings.md).

A bank that answers in T seconds is asked N / T times a second by N calls at once: these settings, and no constant
elsewhere, bound what a process does. The defaults were measured with one worker process on two cores and a bank that
takes 200 ms.
"""

from collections.abc import Mapping

from msgspec import Struct

from runtime.limits.variables import whole_numbers


class Pace(Struct, frozen=True, kw_only=True):
    """Field `x_y` is the variable X_Y."""

    bank_pix_calls: int = 256
    """Orders about cobs under way at the bank of one mode."""
    bank_location_calls: int = 128
    """Locations asked for at once, by the one process of the installation that fills the pool."""
    bank_hint_calls: int = 192
    """Callbacks checked at once: charges looked up."""
    bank_list_pages: int = 4
    """Pages of a list asked for ahead while one is booked, by the one process of the installation that reconciles."""
    bank_boleto_calls: int = 128
    """Orders about boletos under way, per mode."""
    bank_refund_calls: int = 32
    bank_withdrawal_calls: int = 16
    bank_share_per_s: int = 20
    """Orders that one account and mode may place a second, in a process, before other accounts' orders go first."""
    webhook_requests: int = 10
    """Webhooks under way to one address at most, over all workers; `sandbox_webhook_requests` is for test events."""
    sandbox_webhook_requests: int = 5
    orders_claimed: int = 100
    """Orders taken up by one statement."""
    creations_written: int = 100
    """PIX creations written by one statement."""
    pix_locations_s: float = 60.0
    """How many seconds of supply are kept ready, at the rate at which locations are taken."""
    pix_locations_min: int = 30_000
    """The reserve for a burst, filled in the background."""
    pix_locations_max: int = 300_000
    pix_locations_per_s: float = 100.0
    """How fast the background fills the reserve; `pix_locations_s` of supply is made as fast as the bank answers."""
    sandbox_locations_min: int = 20_000
    api_pool_size: int = 12
    """Connections to PostgreSQL of an API process; `web_pool_size` is for the pages in the same process."""
    web_pool_size: int = 4
    worker_pool_size: int = 16
    list_pool_size: int = 8
    """Connections of an API process for lists and sums, apart from those of creations and look-ups."""
    list_statement_s: int = 2
    """The time after which a list or sum is given up."""
    people_pool_size: int = 4
    """Connections for the pages of people who are signed in, apart from those for payers."""
    account_at_once: int = 3
    """Lists, sums and pages of one account and mode at work at the same time in a process."""


_FIELD_MAX: Mapping[str, int] = {
    "bank_list_pages": 32,
    "webhook_requests": 500,
    "sandbox_webhook_requests": 150,
    "orders_claimed": 100,
    "creations_written": 100,
    "pix_locations_s": 3_600,
    "pix_locations_per_s": 10_000,
    "list_statement_s": 60,
}
_DEFAULT_MAX = 10_000
_LOCATIONS_MAX = 10_000_000


def read_pace(env: Mapping[str, str]) -> Pace:
    """ValueError names the variable that is no number from 1 to its bound."""

    def bounds(field: str) -> tuple[int, int]:
        is_location_count = field.endswith(("locations_min", "locations_max"))
        return 1, _LOCATIONS_MAX if is_location_count else _FIELD_MAX.get(field, _DEFAULT_MAX)

    pace = Pace(**whole_numbers(env, Pace.__struct_fields__, bounds))
    if pace.pix_locations_max < pace.pix_locations_min:
        raise ValueError("PIX_LOCATIONS_MAX must not be below PIX_LOCATIONS_MIN")
    return pace
