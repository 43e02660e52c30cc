"""Any training program as a family: it is started, read, continued and ended, never imported."""
