"""basics"""
