"""The files in which processes share their counts (PROMETHEUS_MULTIPROC_DIR), with room for them on the disk.

prometheus_client maps files whose pages are not on the disk yet. When the disk is full, the first write to such a page
ends the process with SIGBUS, which no code can answer: all processes of the API would end, and the supervisor that
starts them again. So the room is taken before anything is counted.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
_FILE_BYTES: Final = 1 << 20
"""All routes with all their statuses take half of it; a file that grows beyond it has no room reserved."""
_KINDS: Final = ("counter", "histogram", "gauge_livesum", "gauge_livemostrecent")


def reserve_count_files() -> None:
    """Reserve the files of this process. To be called before prometheus_client is imported. Where there is no room, the
    process counts for itself alone, and logs that."""
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
    """Make the file, which prometheus_client takes for empty. OSError, and no file, where the disk has no room."""
    try:
        file.write_bytes(bytes(_FILE_BYTES))
    except OSError:
        file.unlink(missing_ok=True)
        raise
