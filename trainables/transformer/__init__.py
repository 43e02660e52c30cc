"""Transformers on text: the model on one page (model.py), how a stack of them trains, and their family."""
