"""The experiment of a search space in MLflow: found, taken out of its trash, or made, with its saved views."""

from __future__ import annotations

from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException

from orchestrator.store.records import Sweep
from orchestrator.tracking import notes, views
from orchestrator.tracking.store import Store

NOTE = "mlflow.note.content"
"""The tag MLflow's page shows as a description."""
KIND = "mlflow.experimentKind"
"""The tag by which MLflow's page knows that an experiment holds training runs, not traces of language models."""


class Experiments:
    """The ids of experiments in one store, each asked for once."""

    def __init__(self, client: MlflowClient, store: Store) -> None:
        self._client = client
        self._store = store
        self._ids: dict[str, str] = {}

    def of(self, sweep: Sweep) -> str:
        """The id of the sweep's experiment, which is made where there is none."""
        name = sweep.spec.name
        if name not in self._ids:
            self._ids[name] = self._find(name) or self._create(sweep)
        return self._ids[name]

    def save_views(self, sweep: Sweep) -> None:
        """Save the views of the sweep's experiment that it lacks, or has from an older sweep."""
        experiment = self.of(sweep)
        for key, value in views.tags(sweep, self._client.get_experiment(experiment).tags).items():
            self._client.set_experiment_tag(experiment, key, value)

    def _find(self, name: str) -> str | None:
        found: Experiment | None = self._client.get_experiment_by_name(name)
        if found is None:
            return None
        if found.lifecycle_stage == "deleted":
            # Its name stays taken while it lies in MLflow's trash.
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _create(self, sweep: Sweep) -> str:
        name = sweep.spec.name
        tags = {NOTE: notes.experiment(sweep.spec), KIND: "custom_model_development"}
        try:
            return str(self._client.create_experiment(name, self._store.location_of(name), tags))
        except MlflowException as error:
            # Another sweep of the same space may have been quicker.
            if error.error_code == "RESOURCE_ALREADY_EXISTS" and (found := self._find(name)):
                return found
            raise
