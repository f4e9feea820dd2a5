"""A class is graded: submissions in, points out, and nothing that a submission does can write its own score.

A learner's Python runs in a sandbox and yields kernels as data. The judge, which never imports it, makes the
points.
"""
