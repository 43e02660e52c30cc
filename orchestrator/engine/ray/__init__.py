"""Ray, which is imported only from here."""

import os
import sys

from orchestrator.engine.ray.settings import check_readable

if "ray" not in sys.modules:
    check_readable(os.environ)
