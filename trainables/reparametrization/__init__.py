"""Neural reparametrization: optimizers race on sparse graphs, some of them through a graph network."""
