# SPDX-License-Identifier: LGPL-3.0-only
"""Finds a PyPI package for a test: in this Python, or installed into an environment of its own."""
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile


def get(module, package, what):
    """Returns the module, or prints a warning and returns None if it cannot be installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        pass
    name = f"{package.replace('_', '-')}-venv-{os.getuid()}"
    where = os.environ.get(f"{package.upper()}_VENV") or os.path.join(tempfile.gettempdir(), name)
    pip = [os.path.join(where, "bin", "pip"), "install", "-q", package]
    try:
        if not os.path.exists(pip[0]):
            subprocess.run([sys.executable, "-m", "venv", where], check=True, capture_output=True)
        subprocess.run(pip, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"!! SKIPPED: no {what}: {package} can't be installed ({error})", file=sys.stderr)
        return None
    sys.path[:0] = [str(path) for path in pathlib.Path(where).glob("lib/python*/site-packages")]
    return importlib.import_module(module)
