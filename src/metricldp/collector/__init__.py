"""Reports as they come over the network: kept once, for good, and sealed into files."""
