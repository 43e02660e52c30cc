"""Ray Tune as the engine: trials are stacks, placed on whatever machines there are.

Tune schedules and retries; it remembers nothing that matters (its snapshots can lag and fail silently). The journal
is the memory, and this file is the only place that knows Tune's searchers, callbacks and stoppers.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ray
from ray import tune
from ray.tune import Callback, Stopper
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.engine.base import Engine, check_trouble, job_of, take_in
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.ray.failing import lost_node, traceback_of
from orchestrator.engine.ray.metrics import Exporter
from orchestrator.engine.ray.reach import Reach, reachable
from orchestrator.engine.ray.starting import start, switch_kept, token_asked, token_file
from orchestrator.engine.ray.trial import REPORT, stack_name, trainable
from orchestrator.engine.ray.watching import Watch
from orchestrator.engine.reports import StackReport
from orchestrator.engine.transport import Transport
from orchestrator.errors import SweepError, UserError
from orchestrator.space.resources import Resources
from orchestrator.store.files import Home, SweepFiles
from orchestrator.terminal.progress import Snapshot

TUNE_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # CSV, JSON and TensorBoard files nobody reads
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the sweep has its own, which leaves something to resume
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is the memory
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # a failed run's traceback is in its record
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # who asks for no GPU sees none; StackTrial sees to it elsewhere, too
}

DASHBOARD_NEEDS = ("aiohttp", "aiohttp_cors", "colorful", "grpc", "opencensus", "prometheus_client")
"""Modules that ``ray[default]`` installs and the dashboard and its exporters import."""


class RayEngine(Engine):
    """Stacks as trials of one Tuner, on this machine or, with ``address``, on a Ray cluster that is there already."""

    def __init__(
        self,
        home: str,
        resources: Resources,
        address: str | None = None,
        *,
        dashboard: bool = False,
        transport: Transport = Transport.AUTO,
    ) -> None:
        self._home = home
        self._resources = resources
        self._address = address
        self._transport = transport
        self._with_dashboard = dashboard
        self._dashboard = ""
        self._kept = ExitStack()
        self._begins = ExitStack()
        """Holds a watch over Ray until it trains, which has one of its own: much is read and opened meanwhile."""

    @property
    def slots(self) -> int:
        return slots_on(ray.nodes(), self._resources)

    def describe(self) -> str:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        totals = ray.cluster_resources()
        where = f"Ray at {self._address}" if self._address else "Ray on this machine"
        gpus = f", {totals['GPU']:g} GPUs" if totals.get("GPU") else ""
        dashboard = self._dashboard or ("none" if self._address else "off (--dashboard starts it)")
        return (
            f"{where}: {len(nodes)} node{'s' if len(nodes) > 1 else ''}, {totals.get('CPU', 0):g} CPU cores{gpus}, "
            f"{self.slots} stacks at a time; dashboard: {dashboard}"
        )

    def exporting(self, sweep_id: str, snapshot: Callable[[], Snapshot]) -> AbstractContextManager[object]:
        return Exporter(sweep_id, snapshot) if self._dashboard else nullcontext()

    def __enter__(self) -> Self:
        if self._with_dashboard:
            check_dashboard(self._address)
        self._kept.enter_context(switch_kept())
        os.environ.update(TUNE_ENVIRONMENT)
        try:
            context = start(self._address, dashboard=self._with_dashboard)
        except BaseException:
            self._kept.close()
            raise
        self._begins.enter_context(Watch())
        _protect_token()
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # Failed trials are reported by the sweep.
        self._dashboard = f"http://{context.dashboard_url}" if context.dashboard_url else ""
        if self._dashboard and (token := token_asked()):
            # Its page takes the token from nothing but what is typed into it: no address can carry it.
            self._dashboard += f", which asks for this token, once a browser: {token}"
        if self.slots < 1:
            asked = self._resources
            self._begins.close()
            ray.shutdown()
            self._kept.close()
            raise UserError(
                f"no node has room for a stack: resources.cpu_per_stack is {asked.cpu_per_stack:g} and "
                f"resources.gpu_per_stack {asked.gpus:g}; lower them or add machines"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._begins.close()
        ray.shutdown()
        self._kept.close()

    def execute(self, campaign: Campaign) -> None:
        files = Home(Path(self._home)).sweep(campaign.sweep.id)
        # Ray's processes on this machine alone are started by this one: they see what it sees.
        proved = self._address is not None or self._transport is Transport.RAY
        with Watch() as watch, reachable(files, self._transport) if proved else nullcontext() as reach:
            self._begins.close()
            self._fit(campaign, files, reach, watch)
        if not campaign.done:
            raise SweepError(f"Ray Tune ended before the sweep did; its files lie in {files.tune}")
        shutil.rmtree(files.tune, ignore_errors=True)
        check_trouble(campaign)

    def _fit(self, campaign: Campaign, files: SweepFiles, reach: Reach | None, watch: Watch) -> None:
        """Have Tune train whatever the campaign hands out."""
        adapter = CampaignSearcher(campaign, self._home)
        callback = CampaignCallback(campaign)
        shared = {"space": campaign.sweep.spec.to_dict(), "reach": reach}
        needs = {"cpu": self._resources.cpu_per_stack, "gpu": self._resources.gpus}
        tuner = tune.Tuner(
            trainable(shared, needs),
            tune_config=tune.TuneConfig(
                search_alg=adapter,
                scheduler=SlotScheduler(),  # type: ignore[no-untyped-call] # its base has no types
                num_samples=-1,
                max_concurrent_trials=self.slots,
                reuse_actors=True,
                trial_name_creator=lambda trial: stack_name(trial.config["job"]),
                trial_dirname_creator=lambda trial: str(trial.config["job"]["stack_id"]),
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(files.directory.resolve()),
                verbose=0,
                stop=CampaignStopper(campaign, callback, adapter),
                callbacks=[callback],
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # StackTrial keeps its own.
                failure_config=tune.FailureConfig(max_failures=self._resources.retries),
            ),
        )
        try:
            tuner.fit()
        except Exception:
            watch.look()
            if not campaign.trouble:  # Tune's own files lie on the disk that is full.
                raise


class NotPickled:
    """Tune pickles what it is given for its snapshots, which nobody reads: these objects leave nothing in them."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class CampaignSearcher(NotPickled, Searcher):
    """The one ``ray.tune`` searcher: whatever strategy chooses the runs, Tune sees stacks being suggested."""

    def __init__(self, campaign: Campaign, home: str) -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._campaign = campaign
        self._home = home
        self.stacks: dict[str, str] = {}
        """The stack that each trial trains, by their ids."""

    def suggest(self, trial_id: str) -> Any:
        if self._campaign.done:
            return Searcher.FINISHED
        stack = self._campaign.next_stack()
        if stack is None:
            return Searcher.FINISHED if self._campaign.done else None
        self.stacks[trial_id] = stack.id
        return {"job": job_of(self._campaign, self._home, stack).to_config()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        if not error:
            self._campaign.stack_ended(self.stacks[trial_id])

    def save(self, checkpoint_path: str) -> None:
        """The journal is the memory."""

    def restore(self, checkpoint_path: str) -> None:
        """The journal is the memory."""


class SlotScheduler(FIFOScheduler):
    """Starts trials in the order they come, each on the actor it was given.

    Tune's own first-in-first-out also hands a trial that waits for its new process to any actor that has become free,
    and gives the new process up: where runs are shorter than a process's start, one slot then does all the work and the
    others never open. Nor is there a need to look through all trials there ever were for the next one.
    """

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """No trial is preferred; the controller starts those that are pending."""
        return None


class CampaignCallback(NotPickled, Callback):
    """Carries results and failures from Tune to the campaign."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._started: dict[str, Trial] = {}
        """The trials that run, by their stacks."""
        self._said: set[str] = set()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._started[trial.config["job"]["stack_id"]] = trial

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._started.pop(trial.config["job"]["stack_id"], None)

    def end_those_with_nothing_to_keep(self) -> None:
        """End the processes of stacks that have not come to an evaluation yet: making data may take minutes, in which
        a process answers nobody."""
        while self._started:
            stack_id, trial = self._started.popitem()
            actor = trial.temporary_state.ray_actor
            if actor is not None and not self._campaign.has_shown(stack_id):
                ray.kill(actor)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        # Taken out of the result, which Tune keeps of every trial there was.
        said = result.pop(REPORT, None)
        if said is not None:
            report = StackReport.from_json(said)
            new = tuple(each for each in report.said if each not in self._said)  # Each process of a node says it.
            self._said.update(new)
            take_in(self._campaign, trial.config["job"]["stack_id"], replace(report, said=new))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        stack_id, said = trial.config["job"]["stack_id"], traceback_of(trial)
        self._started.pop(stack_id, None)
        if lost := lost_node(said):  # Tune's own retries end up there as long as nobody has noticed.
            self._campaign.stack_troubled(stack_id, lost)
        else:
            self._campaign.stack_failed(stack_id, said)


class CampaignStopper(NotPickled, Stopper):
    """Ends the experiment when the sweep is being stopped, and a trial that nobody wants any more."""

    def __init__(self, campaign: Campaign, callback: CampaignCallback, adapter: CampaignSearcher) -> None:
        self._campaign = campaign
        self._callback = callback
        self._adapter = adapter

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether this trial is to end: nothing that it trains is wanted any more."""
        return self._campaign.given_up(self._adapter.stacks[trial_id])

    def stop_all(self) -> bool:
        self._campaign.heed()
        if self._campaign.stopping:
            self._callback.end_those_with_nothing_to_keep()
        return self._campaign.stopping


def _protect_token() -> None:
    """Ray writes the token that guards its ports readable for all users of the machine: keep it to this one."""
    token = token_file()
    if token.is_file():
        token.chmod(0o600)


def slots_on(nodes: list[dict[str, Any]], resources: Resources) -> int:
    """Stacks that fit on these nodes at once, by cores and devices; fractions of one device never span two."""
    return sum(_slots_of(node["Resources"], resources) for node in nodes if node["Alive"])


def _slots_of(has: dict[str, float], resources: Resources) -> int:
    slack = 1e-9  # 0.1 fits ten times into 1
    by_cpu = int(has.get("CPU", 0.0) / resources.cpu_per_stack + slack)
    if resources.gpus == 0:
        return by_cpu
    if resources.gpus > 1:
        return min(by_cpu, int(has.get("GPU", 0.0) / resources.gpus + slack))
    return min(by_cpu, int(has.get("GPU", 0.0)) * int(1 / resources.gpus + slack))


def check_dashboard(address: str | None) -> None:
    """Raise :class:`UserError` where ``--dashboard`` cannot be had."""
    if address is not None:
        raise UserError(f"the cluster at {address} has a dashboard of its own or none; leave --dashboard out")
    missing = [name for name in DASHBOARD_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"Ray's dashboard needs packages that are not installed ({', '.join(missing)}). Install them with "
            'pip install "ray[default]", or leave --dashboard out.'
        )
