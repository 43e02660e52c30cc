"""The command line. Each module reads arguments, calls the library and prints. Slow packages are imported late."""
