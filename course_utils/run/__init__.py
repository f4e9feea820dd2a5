"""Running an Artifact, on a Hopper GPU or in the emulator, in a process of its own."""
