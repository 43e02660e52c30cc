"""What search spaces and profiles may be called."""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of search spaces and profiles become directories and experiment names."""
