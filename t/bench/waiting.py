# SPDX-License-Identifier: LGPL-3.0-only
"""Times refused submissions with a dependency, and the cancellation of all jobs, while N jobs wait for their begin-time."""
import os
import subprocess
import sys
import time

from flux import job

from bench import association, call, handle, settle, show, submit_in_turn, used

n, r = int(sys.argv[1]), int(sys.argv[2])
call("rec_update", [association(os.getuid())])


def waiting(project=None):
    """Returns a job with a begin-time in a day."""
    spec = job.JobspecV1.from_command(["true"])
    spec.setattr("system.dependencies", [{"scheme": "begin-time", "value": str(time.time() + 86400)}])
    if project:
        spec.setattr("system.project", project)
    return spec.dumps()


def timed(what, act):
    """Returns the processor time of the job manager, which does not depend on other processes."""
    before = used()
    act()
    settle()
    show(what, used() - before)


def refuse():
    text = waiting(project="unknown")
    for future in [job.submit_async(handle, text) for _ in range(r)]:
        try:
            future.get_id()
        except OSError:
            continue
        sys.exit("a job of an unknown project was accepted")


def cancel_all():
    subprocess.run(["flux", "cancel", "--all", "--quiet"], check=True)
    while handle.rpc("job-manager.stats-get", {}).get()["active_jobs"] > 0:
        time.sleep(0.1)


timed(f"{r} submissions refused, none waits", refuse)
submit_in_turn([waiting()], n)
settle()
timed(f"{r} submissions refused, {n} jobs wait", refuse)
timed(f"{n} jobs that wait are cancelled", cancel_all)
