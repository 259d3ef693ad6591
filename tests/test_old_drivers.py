"""Drivers of CUDA 12: what they read, and what they load."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ir_helpers import job

import cuda_device as device
from cuda_device import compiler
from cuda_device.codegen.gpu import assemblers, cubin, libcuda, ptx_versions, toolkit
from cuda_device.lazy_dataclasses import replace
from cuda_device.types.architectures import parse

ROOT = Path(__file__).parent.parent
VARIABLE = "CUDA_DEVICE_TEST_PTXAS"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90")


def version_of(ptx: str) -> str:
    return re.search(r"^\.version (\S+)", ptx, re.M)[1]


@device.kernel
def publishes(flag: device.ArrayType(device.int32, 1), x: device.ArrayType(device.float32, 1)):
    device.threadfence()
    x[0] = 1
    device.atomic_ref(flag, 0).store(1, "release")
    while device.atomic_ref(flag, 0).load("acquire") == 1:
        pass
    device.fence("acquire")


@device.kernel
def doubles(x: device.ArrayType(device.float32, 1)):
    i = device.grid(1)
    if i < len(x):
        x[i] *= 2
