"""Text, files, hardware, environment, errors and "did you mean": needed by all other packages."""
