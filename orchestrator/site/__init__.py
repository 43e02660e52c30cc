"""The page that `ui` and `run --watch` serve: every sweep of a home, with links into MLflow's page."""
