"""From a kernel to a verdict: the step table, the checks, and their words."""
