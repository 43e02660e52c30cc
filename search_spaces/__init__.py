"""The search spaces that come with the project, one YAML file each, named as on the command line."""
