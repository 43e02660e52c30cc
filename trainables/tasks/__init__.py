"""Tasks as text: operations modulo n, permutations, and the nested expressions that both are written in."""
