"""From a learner's factory to an Artifact, one module a DSL, with no GPU, CUDA toolkit or host compiler."""
