"""The worker: `python -m workers`."""

from runtime.limits.unused import leave_out_unused

leave_out_unused()

from workers.process import main  # noqa: E402 - what it imports is left out above

if __name__ == "__main__":
    main()
