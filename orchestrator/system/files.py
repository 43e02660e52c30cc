"""Files that are written whole or not at all, even after a crash.

They are defined in the lab, which may not import the orchestrator and writes its checkpoints and datasets with them.
"""

from __future__ import annotations

from trainables.contract.files import flush, write_whole

__all__ = ["flush", "write_whole"]
