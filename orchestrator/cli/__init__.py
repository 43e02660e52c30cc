"""The commands, one module per purpose: each reads its arguments, calls the library and prints.

Only the commands that need torch, Ray or MLflow import them.
"""
