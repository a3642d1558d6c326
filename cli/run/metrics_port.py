"""GET /metrics on METRICS_PORT: the metrics of all processes of a supervisor, from the folder they share.

Each process keeps its metrics in files of its own (PROMETHEUS_MULTIPROC_DIR). When it ends, its gauges are removed and
its counters are added to one file for all ended processes: a process that ends every five seconds would leave 50,000
files in a day, and each scrape reads all files.
"""

import struct
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from cli.run.child import CannotRun
from cli.run.supervise import say
from runtime.local.count_files import reserve

_ENDED_PID = "0"
"""Stands in place of the process id in the files of ended processes."""
_TRIES_MAX = 3


class MetricsServer:
    """Serves from construction until `stop`. The supervisor calls `ended` for each process that ended."""

    def __init__(self, folder: Path, host: str, port: int) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # a scrape while counts move between files would count them twice
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise CannotRun(f"METRICS_PORT {port} on {host} cannot be used ({error.strerror})") from None

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            for _ in range(_TRIES_MAX - 1):
                try:
                    return self._collect_merged()
                except (struct.error, OSError):  # a starting process has created its file but written nothing yet
                    continue
            return self._collect_merged()

    def _collect_merged(self) -> Iterable[Metric]:
        merged: Iterable[Metric] = MultiProcessCollector(None, str(self._folder)).collect()  # type: ignore[no-untyped-call]
        return merged

    def ended(self, pid: int) -> None:
        """Removes the gauges of an ended process, and adds its counters to those of all ended processes."""
        with self._lock:
            mark_process_dead(pid, str(self._folder))  # type: ignore[no-untyped-call]
            for kind in ("counter", "histogram"):
                if (file := self._folder / f"{kind}_{pid}.db").exists():
                    self._add_counts(file, self._folder / f"{kind}_{_ENDED_PID}.db")

    def _add_counts(self, file: Path, to: Path) -> None:
        try:
            # The file is read whole before anything is added: one cut short by a kill counts wholly or not at all.
            counts = list(MmapedDict.read_all_values_from_file(str(file)))  # type: ignore[no-untyped-call]
            if not to.exists():
                reserve(to)
            totals: Any = MmapedDict(str(to))  # type: ignore[no-untyped-call]
            try:
                for key, value, _, _ in counts:
                    before, _ = totals.read_value(key)
                    totals.write_value(key, before + value, 0.0)
            finally:
                totals.close()
        except (struct.error, RuntimeError, ValueError, OSError) as error:
            say(f"counts of a process that ended are lost: {type(error).__name__}")
        finally:
            file.unlink(missing_ok=True)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1.0)
