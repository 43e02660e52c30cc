"""Asks how small a model can be that learns a task: schedules training, searches sizes, records what was found."""
