"""Answers in words: numbers, findings and next steps."""
