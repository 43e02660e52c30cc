"""A real S3 server on loopback, moto's, for the tests that need an object store. What it holds lies in this process, so
that it can be stopped and started again, at another place if need be."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.tracking.servers import free_port

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "of-a-test",
    "AWS_SECRET_ACCESS_KEY": "of-a-test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "2",
}


class ObjectStore:
    """``environment`` is what leads a process to it."""

    def __init__(self) -> None:
        self._port = free_port()
        self._server: ThreadedMotoServer | None = None
        self.environment = CREDENTIALS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}"}

    def start(self) -> None:
        """Begin, or go on, with what it held."""
        logging.getLogger("werkzeug").disabled = True
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        """Answer nobody any more; nothing is forgotten."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def client(self) -> Any:
        """A client of its own, for a test that looks for itself."""
        return boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="of-a-test",
            aws_secret_access_key="of-a-test",
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
    from orchestrator.store import bucket

    store = ObjectStore()
    for name, said in store.environment.items():
        patch.setenv(name, said)
    patch.setattr(bucket, "_clients", {})  # A client stays with its server.
    store.start()
    try:
        yield store
    finally:
        store.stop()
