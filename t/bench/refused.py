# SPDX-License-Identifier: LGPL-3.0-only
"""Times R refused submissions with N inactive jobs that declared a dependency: Flux searches the list of a plugin's
subscriptions for every job that it frees."""
import os
import sys
import time

from bench import association, best, call, handle, job, settle, show, submit, wait

n, r = int(sys.argv[1]), int(sys.argv[2])
call("rec_update", [association(os.getuid())])


def spec(project=None, after=None):
    one = job.JobspecV1.from_command(["true"])
    one.setattr("system.exec.test.run_duration", "1h")
    if project:
        one.setattr("system.project", project)
    if after:
        one.setattr("system.dependencies", [{"scheme": "afterok", "value": str(after)}])
    return one.dumps()


def refused():
    """Seconds until all of them are refused."""
    text = spec(project="unknown")
    start = time.monotonic()
    futures = [job.submit_async(handle, text) for _ in range(r)]
    for future in futures:
        try:
            future.get_id()
        except OSError:
            continue
        sys.exit("a job of an unknown project was accepted")
    settle()
    return time.monotonic() - start


show(f"{r} refused submissions, nothing retained (best of 3)", best([refused() for _ in range(3)]))
first = submit(1)[0]
wait(first, "alloc")
text, left = spec(after=first), n
while left > 0:
    part = [job.submit_async(handle, text) for _ in range(min(2000, left))]
    ids = [future.get_id() for future in part]
    left -= len(ids)
# It ends without success, and so do all that wait for its success.
job.cancel(handle, first)
handle.rpc("job-manager.drain", {}).get()
settle()
show(f"{r} refused submissions, {n} retained (best of 3)", best([refused() for _ in range(3)]))
