# SPDX-License-Identifier: LGPL-3.0-only
"""Times reprioritize of N pending jobs."""
import os
import subprocess
import sys

from bench import association, best, call, reprioritize, settle, show, submit, wait

n, uid = int(sys.argv[1]), os.getuid()
subprocess.run(["flux", "queue", "stop", "--all", "--quiet"], check=True)
call("rec_update", [association(uid)])
wait(submit(n)[-1], "priority")
settle()

show(f"reprioritize of {n} jobs, nothing changed (best of 40)", best([reprioritize() for _ in range(40)]))


def changed(fairshare):
    call("rec_update", [association(uid, fairshare=fairshare)])
    return reprioritize()


show(f"reprioritize of {n} jobs, each changed (best of 3)", best([changed(f) for f in (0.4, 0.3, 0.2)]))
