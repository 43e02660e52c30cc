"""A real S3 server on loopback (moto's), for tests that need an object store. Its objects stay in this process, so
it can be stopped and restarted."""

from __future__ import annotations

import logging
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from tests.record.servers import free_port

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "of-a-test",
    "AWS_SECRET_ACCESS_KEY": "secret-of-a-test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "2",
}


class ObjectStore:
    """An S3 server. ``environment`` has its address and credentials."""

    def __init__(self) -> None:
        self._port = free_port()
        self._server: ThreadedMotoServer | None = None
        self.environment = CREDENTIALS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}"}

    def start(self) -> None:
        """Start with the objects of an earlier start."""
        logging.getLogger("werkzeug").disabled = True
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        """Stop the server and keep the objects."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def client(self) -> Any:
        """Return a new client."""
        return boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="of-a-test",
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            region_name="us-east-1",
        )
