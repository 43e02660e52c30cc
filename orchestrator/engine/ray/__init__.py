"""Ray Tune as an engine. Only this package imports Ray, after a check of the variables that Ray reads."""

from __future__ import annotations

import os
import sys

from orchestrator.engine.ray.variables import check_readable

if "ray" not in sys.modules:
    check_readable(os.environ)
