# ruff: noqa: F403
# `pytest --update-golden tests/repository/test_repository.py` makes it from `hooks.MODULES`.
from cuda_device.plugins.tiles import *
