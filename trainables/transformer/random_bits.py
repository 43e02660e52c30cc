"""SplitMix64's finalizer (Steele, Lea and Flood 2014) on tensors of signed 64-bit words, which wrap as it requires."""

from __future__ import annotations

from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 over the golden ratio, as a signed word."""
FACTORS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def shifted(word: Tensor, bits: int) -> Tensor:
    """Shift words to the right, with zeros from the left."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def scramble(word: Tensor) -> Tensor:
    """Map words to words bijectively so that every output bit depends on every input bit."""
    word = (word ^ shifted(word, 30)) * FACTORS[0]
    word = (word ^ shifted(word, 27)) * FACTORS[1]
    return word ^ shifted(word, 31)
