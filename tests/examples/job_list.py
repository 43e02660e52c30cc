"""Sweep without a search space: train a list of runs under Ray, and record each.

Run it again after a crash. It finds finished runs by key, continues interrupted stacks from checkpoints, and records
each run once.
"""

from pathlib import Path

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.job_queue import OneByOne
from orchestrator.engine.ray.engine import RayEngine
from orchestrator.history.journal import Journal
from orchestrator.home.directories import Home
from orchestrator.jobs.job_list import JobList
from orchestrator.jobs.plan import SweepSetup, job_of
from orchestrator.jobs.resources import Resources
from orchestrator.jobs.state import State
from orchestrator.record.job_records import JobRecords
from orchestrator.record.json_lines import JsonLinesTracker
from orchestrator.space.spaces import load_space
from trainables.base import Arm
from trainables.families import FamilySource

family = load_space("add_vs_add_prod", "smoke").make_family()  # Or any other family.
runs = [family.config(Arm.parse("add"), size, seed=0) for size in (8, 16, 32)]
files = Home(Path("results")).sweep("list-1")
files.directory.mkdir(parents=True, exist_ok=True)
setup = SweepSetup(
    sweep_id="list-1",
    directory=str(files.directory),
    family=FamilySource("listops", family.settings),
    version=family.version,
    source="",  # With the hash of the family's source, workers that have other code are refused.
    accepts_other_code=False,
    probes=(),
    resources=Resources(),
)
tracker = JsonLinesTracker(Path("results/runs.jsonl"))  # Or MLflow's, or your own.
records = JobRecords(setup, lambda call: call(tracker))
records.begin()
plan = JobList((job_of(family, run) for run in runs), records.run_ended)
with files.driving(), Journal(files.journal), RayEngine() as engine:
    engine.execute(Campaign(files, setup, plan, slots=engine.slots, sizing=OneByOne()))
records.end(State.FINISHED if plan.done else State.INTERRUPTED)
for run in runs:
    print(run.size, plan.outcomes[family.key(run)].accuracy)
