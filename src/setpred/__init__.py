"""Set prediction for PyTorch: a vector, an image or a set in, a multiset out."""
