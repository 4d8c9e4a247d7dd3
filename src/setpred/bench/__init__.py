"""Speed and memory of the inner loop, against the floor of its matrix products and against a naive loop."""
