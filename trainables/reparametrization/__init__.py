"""Neural reparametrization: optimizers race on a sparse graph, some of them through a graph network."""
