"""The command line: parses arguments, calls the package and prints."""
