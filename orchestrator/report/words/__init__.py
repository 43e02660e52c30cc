"""The words of answers: numbers, findings, and what to do next."""
