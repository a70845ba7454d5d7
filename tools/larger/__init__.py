"""The programs of docs/large_models.md: what is larger than one IPU, each with what is asked of it."""
