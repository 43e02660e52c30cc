"""Records of sweeps, in MLflow or another tracker."""

import os

# MLflow sends usage statistics over the network unless this is set before it is first imported.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
