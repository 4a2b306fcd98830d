# SPDX-License-Identifier: LGPL-3.0-only
"""Measures the resident memory of the broker before and after N associations and J pending jobs."""
import os
import subprocess
import sys

from bench import association, call, memory, settle, show, submit, wait

n, j = int(sys.argv[1]), int(sys.argv[2])
subprocess.run(["flux", "queue", "stop", "--all", "--quiet"], check=True)
uid = os.getuid()
# The first update allocates message buffers. The measurement begins afterwards, so it does not include them.
call("rec_update", [association(100000 + i) for i in range(n)])
first = memory()
call("rec_update", [association(500000 + i) for i in range(n)])
settle()
second = memory()
call("rec_update", [association(900000 + i) for i in range(n)])
settle()
show("memory for each new association, twice", (second - first) / n, "bytes")
show("", (memory() - second) / n, "bytes")
call("rec_update", [association(uid)])
wait(submit(1000)[-1], "priority")
settle()
before = memory()
wait(submit(j)[-1], "priority")
settle()
show("memory for each pending job", (memory() - before) / j, "bytes")
