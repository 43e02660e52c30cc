"""What a trained model has inside: pure functions of a model, its family and its data."""
