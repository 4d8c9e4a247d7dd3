"""Data: numbering, random sets, CLEVR and its renderer, folders of one's own."""
