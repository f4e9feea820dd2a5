"""The one exception that compiling raises."""


class CompileError(Exception):
    """A factory could not be turned into an Artifact.

    ``stage`` is ``"load"`` (the file), ``"trace"`` (the factory's own Python), ``"signature"`` (what it
    returned), ``"lower"`` (the DSL's compiler), ``"assemble"`` (NVRTC or ptxas) or ``"limit"`` (a Hopper SM
    cannot hold it). The text is for a learner: what happened, where in their code, what to try. ``printed``
    is what the factory printed until then, ``line`` the line of generated CUDA that the assembler refused, 0
    where it does not say.
    """

    def __init__(self, stage: str, message: str, printed: str = "", line: int = 0):
        super().__init__(message)
        self.stage, self.printed, self.line = stage, printed, line
