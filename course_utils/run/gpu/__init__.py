"""The GPU backend: a worker process that loads, launches, checks and times Artifacts through the CUDA driver
API.
"""
