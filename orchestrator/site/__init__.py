"""The page of `ui`: every sweep of a home, with links into MLflow's page."""
