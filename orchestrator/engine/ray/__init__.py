"""Ray Tune as an engine. Only this package imports Ray."""

import os
import sys

from orchestrator.engine.ray.settings import check_readable

if "ray" not in sys.modules:
    check_readable(os.environ)
