"""Any training program as a family: it is started as a process, read, continued and ended, but never imported."""
