"""What every test begins with."""

from __future__ import annotations

import os

# The models and matrices of these tests are small. Threads make nothing of them faster; beside other tests they wait for
# one another, and burn the processor meanwhile. Programs that tests start inherit it; a stack's own threads are set by
# its worker all the same. It must be said before torch and numpy are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
