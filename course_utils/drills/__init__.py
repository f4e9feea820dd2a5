"""Drills: puzzles of under a minute, made from a seed, with an answer that a model of the course computes."""
