"""The page that `ui` serves: every sweep of a home, with links into MLflow's page."""
