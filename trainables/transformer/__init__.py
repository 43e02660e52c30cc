"""Transformers on text: the model on one page (model.py), the training of a stack of them, and their family."""
