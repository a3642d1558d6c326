"""The worker: `python -m workers`."""

from runtime.limits.imports import import_lightly

import_lightly()

from workers.process import main  # noqa: E402 - what it imports is left out above

if __name__ == "__main__":
    main()
