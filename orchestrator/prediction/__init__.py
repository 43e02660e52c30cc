"""What can be said before training: which mixes should help, from the tables of the tasks, and how well that did."""
