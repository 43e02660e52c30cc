"""How what is trained comes to the driver."""

from __future__ import annotations

from enum import StrEnum


class Transport(StrEnum):
    """``shared``: workers write to the driver's home, which every node sees. ``ray``: they send files to the driver's
    machine through Ray. ``auto``: each worker writes to the home where it sees it, and sends where it does not."""

    AUTO = "auto"
    SHARED = "shared"
    RAY = "ray"
