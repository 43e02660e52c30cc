"""The answer of a sweep as values, then as sentences, figures and a page, and verdicts on papers' claims."""
