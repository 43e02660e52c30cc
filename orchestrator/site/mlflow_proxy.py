"""Passes requests from this program's server on to MLflow's server, if they read or annotate the record.

MLflow has no login here. It listens on a Unix socket that only this user can open.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

CREDENTIALS = struct.Struct("iII")
"""Process, user and group at the other end of a Unix socket."""
MLFLOW_ANSWER_S = 120.0
"""Seconds to wait for an answer from MLflow."""
LONGEST_BODY = 1 << 20
"""Maximum number of bytes of a request's body. Queries and annotations are short."""
READS = re.compile(
    r"graphql|ajax-api/\d\.0/mlflow/(runs|experiments|logged-models|datasets|traces|registered-models|model-versions"
    r")/(search[a-z-]*|metrics|batchGetInfos)"
)
"""Pattern of the queries that MLflow's page sends with POST. Without their last part, some of these addresses create a
record."""
ANNOTATES = re.compile(
    r"ajax-api/2\.0/mlflow/("
    r"runs/(update|delete|restore|set-tag|delete-tag)"
    r"|experiments/(update|delete|restore|set-experiment-tag|delete-experiment-tag))"
)
"""Pattern of requests that change names, notes and tags, or use MLflow's trash. No other change is passed on: a new
experiment could choose any folder of this user for its files, and uploads could then write there."""
PASSED_HEADERS = ("accept", "accept-encoding", "content-type", "if-none-match", "if-modified-since", "range")
"""Headers of a request that MLflow receives. It does not receive ``Origin``, so it never allows another origin."""
RETURNED_HEADERS = (
    *("content-type", "content-length", "content-encoding", "content-disposition", "content-range"),
    *("cache-control", "etag", "last-modified"),
)
"""Headers of MLflow's answer that the browser receives."""
REQUEST_PATH = re.compile(r"([\w~-][\w.~-]*(/[\w~-][\w.~-]*)*/?)?", re.ASCII)
"""Pattern of allowed paths. MLflow would also decode ``%67et-artifact`` and skip doubled slashes, so other spellings
could pass the patterns below."""
FILES = re.compile(r"get-artifact|ajax-api/2\.0/mlflow/artifacts/list")
"""Addresses of files of a run."""
GRAPHQL = "graphql"
"""Address of queries in GraphQL. One of its fields, ``mlflowListArtifacts``, lists files."""
QUERY = re.compile(r"[!-~]*")
"""Pattern of allowed queries. Browsers encode all other characters."""
REFUSED = re.compile(
    r".*artifact.*|.*/traces/(get|batchGet)|.*/gateway-proxy|.*/get-download-uri|.*/assistant/(providers|sessions)/.*"
    r"|.*/jobs(/.*)?"
)
"""Pattern of other addresses that open any file or connection that the record names, or that start programs. Sweeps do
not record such things."""
PAGES = re.compile(r"(static-files/.*)?")
"""Pattern of the addresses of MLflow's own pages and scripts. The browser must not run anything else: it is data."""


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=MLFLOW_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
        if hasattr(socket, "SO_PEERCRED"):  # Linux.
            credentials = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            _, user, _ = CREDENTIALS.unpack(credentials)
            if user not in (0, os.getuid()):
                self.close()
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Another user listens there", str(self._path))


@dataclass(frozen=True)
class MlflowPage:
    """MLflow's server at a Unix socket, if this user started it. It is not asked for files if the record names some
    outside its home."""

    socket: Path
    has_files: bool = True

    def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> HTTPResponse | None:
        """Return MLflow's answer, or None if MLflow is still starting."""
        connection = _UnixConnection(self.socket)
        passed = {name: value for name, value in headers.items() if name.lower() in PASSED_HEADERS}
        try:
            connection.request(method, f"/{path}{'?' if query else ''}{query}", body or None, passed)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        return connection.getresponse()


def lists_files(path: str, body: bytes) -> bool:
    """Return True for a request of GraphQL that may list files of a run. MLflow reads such a request from its body."""
    if not path.startswith(GRAPHQL):
        return False
    try:
        query = json.loads(body)["query"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return True  # Not a query of MLflow's page.
    return not isinstance(query, str) or "artifact" in query.lower()


def is_allowed(method: str, path: str, query: str) -> bool:
    """Return True for a request that MLflow may receive."""
    if not (REQUEST_PATH.fullmatch(path) and QUERY.fullmatch(query)):
        return False
    if method == "GET":
        return bool(FILES.fullmatch(path)) or not REFUSED.fullmatch(path)
    return bool(READS.fullmatch(path) or ANNOTATES.fullmatch(path))
