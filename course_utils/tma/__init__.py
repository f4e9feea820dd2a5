"""The TMA contract: which tensor maps the driver takes, their bytes, and where a box lies in shared
memory.
"""
