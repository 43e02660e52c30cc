"""One sweep from start to answer, or several that share an engine."""
