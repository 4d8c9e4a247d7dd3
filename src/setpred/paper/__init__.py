"""The paper's tables: the published numbers, and the same cells trained again beside them."""
