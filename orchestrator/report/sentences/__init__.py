"""Sentences about answers: numbers, findings and next steps."""
