"""Speculative decoding that never changes a token and never loses time."""
