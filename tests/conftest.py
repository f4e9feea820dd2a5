"""Tests marked `gpu` run on a Hopper GPU and skip everywhere else."""

import pytest


def hopper_missing():
    """Why the GPU tests cannot run here, or None if they can."""
    try:
        import torch  # takes seconds, so only once a GPU test is collected
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "no GPU"
    major, minor = torch.cuda.get_device_capability()
    return None if major == 9 else f"the GPU is sm_{major}{minor}, not Hopper"


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = hopper_missing() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
