"""The worker: `python -m workers`."""

from runtime.limits.imports import import_lightly
from runtime.local.count_files import reserve_count_files

import_lightly()
reserve_count_files()

from workers.process import main  # noqa: E402 - what it imports is left out above

if __name__ == "__main__":
    main()
