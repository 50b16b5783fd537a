"""coins"""
