"""An independent implementation of permutation texts with sympy, against which the family is tested."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

from sympy.combinatorics import Permutation, PermutationGroup
from sympy.combinatorics.named_groups import CyclicGroup, DihedralGroup, SymmetricGroup

from tests.trainables.spelling import solution

KINDS = {"S": SymmetricGroup, "C": CyclicGroup, "D": DihedralGroup}


def sympy_group(name: str) -> PermutationGroup:
    """Return sympy's group of the same name."""
    return KINDS[name[0]](int(name[1:]))


def within(subgroup: PermutationGroup, points: int) -> list[Permutation]:
    """Return the elements of a group, with fixed points added up to ``points``."""
    return [Permutation(element.array_form, size=points) for element in subgroup.elements]


@dataclass
class Oracle:
    """Evaluator of texts of one group.

    Args:
        points: Number of points.
        point: Point whose image is asked for.
        subgroup: Elements of the subgroup whose left cosets are asked for.
    """

    points: int
    point: int = 0
    subgroup: Sequence[Permutation] = ()

    def value(self, operation: str, factors: Sequence[Permutation]) -> str:
        """Return the value of an operation as text."""
        product = reduce(mul, factors)
        match operation:
            case "product":
                return self.show(product)
            case "image":
                return str(product(self.point))
            case "sign":
                return "+" if product.signature() == 1 else "-"
            case "order":
                return f"#{product.order()}"
            case "coset":
                coset = [product * element for element in self.subgroup]
                return self.show(min(coset, key=lambda element: element.array_form))
        raise KeyError(operation)

    def show(self, element: Permutation) -> str:
        return f"[{' '.join(map(str, element.array_form))}]"

    def read(self, arguments: str) -> list[Permutation]:
        """Return the elements of an argument list that contains nothing else."""
        return [Permutation([int(i) for i in images.split()]) for images in re.findall(r"\[([0-9 ]+)\]", arguments)]

    def solution(self, prompt: str) -> str:
        return solution(prompt, lambda name, factors: self.value(name, self.read(factors)))

    def argument_lists(self, text: str) -> set[tuple[tuple[int, ...], ...]]:
        """Return every list of adjacent elements in a text, with elements as images. Operations separate lists."""
        runs = [self.read(run) for run in re.findall(r"[^a-z()=<>]+", text) if "[" in run]
        return {tuple(tuple(element.array_form) for element in run) for run in runs}
