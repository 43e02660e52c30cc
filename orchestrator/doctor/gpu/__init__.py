"""The checks of a GPU, in the order of what the later ones rely on."""
