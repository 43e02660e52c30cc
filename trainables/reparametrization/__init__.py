"""Neural reparametrization: optimisers race on a sparse graph, some of them through a graph network."""
