"""The page that `ui` opens: every sweep of a home, beside MLflow's page on the same machine."""
