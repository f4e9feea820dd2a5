"""The same jobs as Ray Core tasks: one GPU each where GPUs are asked for, a process for each submission.

Ray brings what many machines need: where a job runs, and that it runs again where its process or its node is
lost. What is known stands in the ledger, on a file system that all nodes share, as with any other run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ray

from course_utils.classroom.grading import TRIES, Job, Settings, judge_one, unknown
from course_utils.classroom.ledger import Ledger
from course_utils.run.client import ONE_THREAD, python_path


def judge_all(
    todo: Sequence[Job], settings: Settings, done: Callable[[Job, dict | None], object], **cluster: object
) -> None:
    """Judge what the ledger lacks, as ``grading.judge_all``. ``cluster`` goes to ``ray.init``: with
    nothing, the cluster that RAY_ADDRESS names, else one of this machine alone.

    A task's process ends with it (``max_calls=1``): none sees what another left. Raises OSError where the
    ledger cannot be written, and what ``ray.init`` raises.
    """
    ledger = Ledger(settings.ledger, settings.key)
    left = unknown(todo, ledger, done)
    variables = {"env_vars": {"PYTHONPATH": python_path()} | ONE_THREAD}
    ray.init(**{"runtime_env": variables, "log_to_driver": False, "include_dashboard": False} | cluster)
    try:
        task = ray.remote(
            num_cpus=1, num_gpus=int(settings.backend == "gpu"), max_calls=1, max_retries=TRIES
        )(judge_one)
        running = {task.remote(job, settings): job for job in left}
        while running:
            for reference in ray.wait(list(running))[0]:
                job = running.pop(reference)
                try:
                    record, fault = ray.get(reference)
                except ray.exceptions.RayError as error:  # lost more often than it is tried again
                    record, fault = None, f"{type(error).__name__}: its process or node was lost"
                if record is None:
                    ledger.fault(job.entry, fault)
                done(job, record)
    finally:
        ray.shutdown()
