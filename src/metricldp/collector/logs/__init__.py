"""Reports from a log that delivers at least once, and segments that grow many: counted once."""
