"""What is trained: families of models, their tasks and probes. Imports neither Ray nor MLflow nor the orchestrator."""

from trainables.contract.simple import SimpleFamily, SimpleSettings

__all__ = ["SimpleFamily", "SimpleSettings"]
