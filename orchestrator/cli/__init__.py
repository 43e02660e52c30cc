"""The commands: each module reads arguments, calls the library and prints. It imports slow packages only if needed."""
