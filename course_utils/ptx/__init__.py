"""The one reader of PTX: its text as instructions, what a kernel contains, and the path that each copy
takes.
"""
