"""The files in which processes share their counts (PROMETHEUS_MULTIPROC_DIR), with room for them on the disk.

prometheus_client maps files whose pages are not on the disk yet. Where it has no room left, the first write to one ends
the process with SIGBUS, which no code can answer: a full disk would end all processes of the API, and who starts them
again. So the room is taken before anything is counted.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
_BYTES: Final = 1 << 20
"""Every route with all its statuses takes half of it; a file that grows beyond has no room of its own."""
_KINDS: Final = ("counter", "histogram", "gauge_livesum", "gauge_livemostrecent")


def take_room() -> None:
    """For the counts of this process. To be called before prometheus_client is imported. Where there is no room the
    process counts for itself alone, and says so."""
    if (folder := os.environ.get(FOLDER)) is None:
        return
    files = [Path(folder) / f"{kind}_{os.getpid()}.db" for kind in _KINDS]
    try:
        for file in files:
            reserve(file)
    except OSError as error:
        for file in files:
            file.unlink(missing_ok=True)
        del os.environ[FOLDER]
        line = {"level": "warning", "event": "counts_not_shared", "error": error.strerror}
        print(json.dumps(line), file=sys.stderr, flush=True)


def reserve(file: Path) -> None:
    """Make the file, empty to prometheus_client. OSError, and no file, where the disk has no room."""
    try:
        file.write_bytes(bytes(_BYTES))
    except OSError:
        file.unlink(missing_ok=True)
        raise
