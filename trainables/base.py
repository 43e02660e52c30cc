"""The contract under one name, for authors of families: ``from trainables.base import Family, Learner, RunConfig``."""

from __future__ import annotations

from trainables.contract.arms import Arm, Mix
from trainables.contract.family import Family
from trainables.contract.learner import Learner
from trainables.contract.machine_traits import Speed
from trainables.contract.runs import Evaluation, Outcome, Parameters, Report, RunConfig, Start, Status, Until
from trainables.contract.settings import SettingsError
from trainables.contract.words import Words

__all__ = ["Arm", "Evaluation", "Family", "Learner", "Mix", "Outcome", "Parameters", "Report", "RunConfig"]
__all__ += ["SettingsError", "Speed", "Start", "Status", "Until", "Words"]
