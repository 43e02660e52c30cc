"""The record of a sweep, kept in MLflow."""

import os

# MLflow sends usage statistics over the network unless told not to before it is first imported.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
