"""The inner loops over reports, nothing else: `counting` for the collector, `encoding` for devices.

Each has numpy loops and compiled twins that give the same numbers, bit for bit.
"""
