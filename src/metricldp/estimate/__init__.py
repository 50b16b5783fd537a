"""Conditions of queries, and the estimates that answer them."""
