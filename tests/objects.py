"""A real S3 server on loopback, moto's, for the tests that need an object store. What it holds lies in this process, so
that it can be stopped and started again, at another place if need be."""

from __future__ import annotations

import logging
import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import boto3
import pytest
from moto.moto_server import threaded_moto_server
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

from tests.record.servers import free_port

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "of-a-test",
    "AWS_SECRET_ACCESS_KEY": "secret-of-a-test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "2",
}


class _Application(DomainDispatcherApplication):
    """Moto's application, one write after the other: it looks at a condition and writes in two steps, a store
    in one. ``share`` of the requests is answered with 500."""

    writes = threading.Lock()
    drawn: ClassVar[random.Random] = random.Random(0)
    share: ClassVar[float] = 0.0
    refused: ClassVar[int] = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if self.drawn.random() < self.share:
            _Application.refused += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        with self.writes if environ["REQUEST_METHOD"] in ("PUT", "POST") else nullcontext():
            return super().__call__(environ, start_response)


class ObjectStore:
    """``environment`` leads a process to it."""

    def __init__(self) -> None:
        self._port = free_port()
        self._server: ThreadedMotoServer | None = None
        self.environment = CREDENTIALS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}"}

    def start(self) -> None:
        """Begin, or go on, with what it held."""
        logging.getLogger("werkzeug").disabled = True
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threaded_moto_server, "DomainDispatcherApplication", _Application)
            self._server.start()

    def stop(self) -> None:
        """Answer nobody any more; nothing is forgotten."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    @contextmanager
    def refusing(self, share: float) -> Iterator[None]:
        """A block in which this share of all requests is answered with 500, and some are."""
        _Application.share, before = share, _Application.refused
        try:
            yield
        finally:
            _Application.share = 0.0
        assert _Application.refused > before

    def client(self) -> Any:
        """A client of its own, for a test that looks for itself."""
        return boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="of-a-test",
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            region_name="us-east-1",
        )

    def bucket(self) -> str:
        """The address of a place in a new bucket."""
        name = f"sweeps-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}/team/home"

    def keys(self, address: str) -> list[str]:
        """The keys of all objects beneath an address."""
        bucket, _, prefix = address.removeprefix("s3://").partition("/")
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
        return [each["Key"].removeprefix(f"{prefix}/") for page in pages for each in page.get("Contents", ())]


@contextmanager
def object_store(patch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """One that this process, and those that it starts, come to."""
    store = ObjectStore()
    for name, said in store.environment.items():
        patch.setenv(name, said)
    store.start()
    try:
        yield store
    finally:
        store.stop()
