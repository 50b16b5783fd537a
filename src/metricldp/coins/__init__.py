"""Coins: random words, and the exact random bits and integers that are made from them."""
