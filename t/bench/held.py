# SPDX-License-Identifier: LGPL-3.0-only
"""Times reprioritize with N held jobs and Q queues in the plugin."""
import os
import sys

from bench import association, best, call, queue, reprioritize, settle, show, submit, wait

n, q = int(sys.argv[1]), int(sys.argv[2])
call("rec_q_update", [queue(f"q{i}", priority=i) for i in range(q)])
call("rec_update", [association(os.getuid(), max_running_jobs=1)])
wait(submit(1)[0], "alloc")
wait(submit(n)[-1], "dependency-add")
settle()

show(f"reprioritize with {n} held jobs, {q} queues (best of 3)", best([reprioritize() for _ in range(3)]))
