"""Results files: what was measured, what a learner has reached, and the bundle that measures elsewhere."""
