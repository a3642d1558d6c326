"""The worker: `python -m workers`."""

from runtime.limits.imports import import_lightly
from runtime.local.count_files import take_room

import_lightly()
take_room()

from workers.process import main  # noqa: E402 - what it imports is left out above

if __name__ == "__main__":
    main()
