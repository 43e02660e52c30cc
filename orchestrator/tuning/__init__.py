"""Settings tuned for each mix before its transition is searched: scores, studies, words. Pure; the engine trains."""
