# SPDX-License-Identifier: LGPL-3.0-only
"""Times how N held jobs drain that a limit releases one at a time."""
import os
import sys
import time

from bench import association, call, handle, settle, show, submit, wait
from flux import job

n, uid = int(sys.argv[1]), os.getuid()
call("rec_update", [association(uid, max_running_jobs=1)])
first = submit(1)[0]
wait(first, "alloc")
last = submit(n, run="0.0001s")[-1]
wait(last, "dependency-add")
settle()
start = time.monotonic()
job.cancel(handle, first)
wait(last, "start")
seconds = time.monotonic() - start
show(f"drain of {n} held jobs, one at a time", seconds)
show("  for each job", seconds / n * 1e3, "ms")
