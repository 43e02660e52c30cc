"""The commands, a module for each purpose. Each command reads its arguments, calls what does the work and prints.
torch, Ray and MLflow are imported only inside the commands that need them."""
