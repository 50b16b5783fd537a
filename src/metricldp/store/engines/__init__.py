"""Engines that people already have, and what each of them is asked to do."""
