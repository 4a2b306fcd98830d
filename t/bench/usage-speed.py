#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Times the usage count of `flux fairshare sync` and of flux-accounting's update-usage on one large site, in one run.

usage: flux python usage-speed.py PROGRAM [ASSOCIATIONS [BANKS [JOBS]]]

First all jobs are new, then none. Times are wall clock and CPU seconds of whole commands, ours first; the other program is the installed
flux account-update-usage. Both results must be equal.
"""
import contextlib
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

from fluxacct.accounting import create_db


def make(path, associations, banks, jobs):
    rng = random.Random(7)
    create_db.create_db(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        start = time.time() - 86400
        # All jobs are in the first half-life period of the site.
        db.execute("UPDATE t_half_life_period_table SET end_half_life_period = ?", (start - 60 + 604800,))
        db.execute("INSERT INTO bank_table (bank, shares) VALUES ('root', 1)")
        db.executemany("INSERT INTO bank_table (bank, parent_bank, shares) VALUES (?, 'root', ?)",
                       [(f"bank{n}", n % 7 + 1) for n in range(banks)])
        who = [(f"user{n}", 100000 + n, f"bank{n % banks}") for n in range(associations)]
        db.executemany("INSERT INTO association_table (creation_time, username, userid, bank, default_bank) "
                       "VALUES (0, ?, ?, ?, ?)", [(*one, one[2]) for one in who])
        db.executemany("INSERT INTO job_usage_factor_table (username, userid, bank) VALUES (?, ?, ?)", who)
        db.executemany("INSERT INTO job_usage_per_association_table VALUES (?, ?, ?, ?, 0.0)",
                       [(*one, period) for one in who for period in range(4)])
        jobspec = json.dumps({"version": 1, "tasks": [{"command": ["sleep", "60"], "slot": "task", "count": {}}],
                              "attributes": {"system": {"duration": 3600, "cwd": "/home/user", "shell": {}}}})

        def rows():
            for n in range(jobs):
                _, userid, bank = who[rng.randrange(associations)]
                ended = start + n * 80000 / jobs
                first = rng.randrange(1000)
                last = first + rng.choice([0, 0, 1, 3, 15])
                r = json.dumps({"version": 1, "execution": {
                    "R_lite": [{"rank": str(first) if first == last else f"{first}-{last}",
                                "children": {"core": "0-63", "gpu": "0-3"}}],
                    "starttime": ended - 60.5, "expiration": ended + 3600, "nodelist": [f"node{first}" if first == last else f"node[{first}-{last}]"]}})
                yield (n + 1, userid, ended - 100, ended - 60.5, ended, "0", r, jobspec, "", bank, 3600, 60.5)

        db.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows())
        db.commit()


def timed(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, check=True)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    program = sys.argv[1]
    sizes = [int(size) for size in sys.argv[2:5]] + [100_000, 1_000, 1_000_000][len(sys.argv) - 2:]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as room:
        theirs, ours = os.path.join(room, "theirs.db"), os.path.join(room, "ours.db")
        make(theirs, *sizes)
        shutil.copy(theirs, ours)
        print("{} associations, {} banks, {} jobs".format(*sizes))
        for what in ("all new", "nothing new"):
            fast = timed([program, "sync", "--only", "usage", "-p", ours])
            if os.environ.get("BENCH_OURS_ONLY"):
                print(f"{what}: {fast[0]:.3f} s wall, {fast[1]:.3f} s CPU")
                continue
            slow = timed(["flux", "account-update-usage", "-p", theirs])
            print(f"{what}: ours {fast[0]:.3f} s wall, {fast[1]:.3f} s CPU; update-usage {slow[0]:.2f} s wall, "
                  f"{slow[1]:.2f} s CPU; {slow[0] / fast[0]:.1f} times in wall, {slow[1] / fast[1]:.1f} in CPU")
            with contextlib.closing(sqlite3.connect(ours)) as db:
                db.execute("ATTACH ? AS theirs", (theirs,))
                for table, key in (("association_table", "username, bank, job_usage"),
                                   ("bank_table", "bank, job_usage"),
                                   ("job_usage_per_association_table", "username, bank, period, value"),
                                   ("job_usage_factor_table", "username, bank, last_job_timestamp")):
                    differ = db.execute(f"SELECT count(*) FROM (SELECT {key} FROM {table} "
                                        f"EXCEPT SELECT {key} FROM theirs.{table})").fetchone()[0]
                    if differ:
                        sys.exit(f"{what}: {differ} rows of {table} differ")


if __name__ == "__main__":
    main()
