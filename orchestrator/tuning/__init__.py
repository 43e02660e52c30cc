"""Nuisance hyperparameters, tuned for each mix before its transition is searched: what is asked, how a trial is scored,
what was found. Pure values; the engine trains the trials."""
