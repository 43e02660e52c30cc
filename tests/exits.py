"""A module of a family that ends the program when it is imported, like a script without a guard."""

import sys

sys.exit(3)
