"""What writes the notebooks: exercise cells cut from the solutions, and the pictures. No learner imports
it.
"""
