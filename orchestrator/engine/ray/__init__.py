"""Ray Tune as an engine. Only this package imports Ray."""
