"""MLflow's page behind this program's server, which passes on requests that read or annotate the record.

MLflow has no login here. It listens on a Unix socket that only this user can open.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

MLFLOW_ANSWER_S = 120.0
"""Seconds to wait for MLflow."""
LONGEST_BODY = 1 << 20
"""Maximum length of a request's body. Queries and annotations are short."""
READS = re.compile(
    r"graphql|ajax-api/\d\.0/mlflow/(runs|experiments|logged-models|datasets|traces|registered-models|model-versions"
    r")/(search[a-z-]*|metrics|batchGetInfos)"
)
"""Queries that MLflow's page sends with POST. Without their last part, some of these addresses create a record."""
ANNOTATES = re.compile(
    r"ajax-api/2\.0/mlflow/("
    r"runs/(update|delete|restore|set-tag|delete-tag)"
    r"|experiments/(update|delete|restore|set-experiment-tag|delete-experiment-tag))"
)
"""Changes of names, notes and tags, and MLflow's trash. No other change is passed on: a new experiment could name any
folder of this user as the place of its files, and uploads could then write there."""
PASSED_HEADERS = ("accept", "accept-encoding", "content-type", "if-none-match", "if-modified-since", "range")
"""Headers of a request that MLflow receives. ``Origin`` is missing, so MLflow never allows another origin."""
RETURNED_HEADERS = (
    *("content-type", "content-length", "content-encoding", "content-disposition", "content-range"),
    *("cache-control", "etag", "last-modified"),
)
"""Headers of MLflow's answer that the browser receives."""
REQUEST_PATH = re.compile(r"([\w~-][\w.~-]*(/[\w~-][\w.~-]*)*/?)?", re.ASCII)
"""Pattern of paths. MLflow would also decode ``%67et-artifact``, and skip doubled slashes."""
FILES = re.compile(r"get-artifact|ajax-api/2\.0/mlflow/artifacts/list")
"""Addresses of files of a run."""
QUERY = re.compile(r"[!-~]*")
"""Pattern of queries. Browsers encode all other characters."""
REFUSED = re.compile(
    r".*artifact.*|.*/traces/(get|batchGet)|.*/gateway-proxy|.*/get-download-uri|.*/assistant/(providers|sessions)/.*"
)
"""Other addresses that open files or connections of any place that the record names, or start programs. Sweeps record
no such things."""
PAGES = re.compile(r"(static-files/.*)?")
"""MLflow's own pages and scripts. Everything else is data, so the browser must not run it as a page."""


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=MLFLOW_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass(frozen=True)
class MlflowPage:
    """MLflow's server at a Unix socket. It is not asked for files if the record names some outside its home."""

    socket: Path
    has_files: bool = True

    def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> HTTPResponse | None:
        """Return MLflow's answer, or None while it starts."""
        connection = _UnixConnection(self.socket)
        passed = {name: value for name, value in headers.items() if name.lower() in PASSED_HEADERS}
        try:
            connection.request(method, f"/{path}{'?' if query else ''}{query}", body or None, passed)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        return connection.getresponse()


def is_allowed(method: str, path: str, query: str) -> bool:
    """Return True for a request that MLflow may receive."""
    if not (REQUEST_PATH.fullmatch(path) and QUERY.fullmatch(query)):
        return False
    if method == "GET":
        return bool(FILES.fullmatch(path)) or not REFUSED.fullmatch(path)
    return bool(READS.fullmatch(path) or ANNOTATES.fullmatch(path))
