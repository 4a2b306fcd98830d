#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Writes a job archive of all ended jobs from the KVS, as a former module of flux-core did.

  archive.py FILE               writes the archive and prints its number of jobs
  archive.py --compare A B      compares the jobs of two accounting databases, and JSON texts by their value
"""
import json
import sqlite3
import sys

SCHEMA = """CREATE TABLE jobs (id char(16) PRIMARY KEY NOT NULL, userid int NOT NULL, ranks text NOT NULL,
    t_submit real NOT NULL, t_run real NOT NULL, t_cleanup real NOT NULL, t_inactive real NOT NULL,
    eventlog text NOT NULL, jobspec text NOT NULL, R text NOT NULL)"""


def write_archive(path):
    import flux
    from flux.job import job_list_inactive

    handle = flux.Flux()
    names = ["userid", "ranks", "t_submit", "t_run", "t_cleanup", "t_inactive"]
    jobs = job_list_inactive(handle, attrs=names, max_entries=0).get_jobs()
    with sqlite3.connect(path) as db:
        db.execute(SCHEMA)
        for job in jobs:
            keys = ["eventlog", "jobspec"] + (["R"] if "t_run" in job else [])
            # Without flags the lookup returns the jobspec as it was submitted.
            kvs = handle.rpc("job-info.lookup", {"id": job["id"], "keys": keys, "flags": 0}).get()
            row = [str(job["id"])] + [job.get(name, "" if name == "ranks" else 0.0) for name in names]
            row += [kvs["eventlog"], kvs["jobspec"], kvs.get("R", "")]
            db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    print(len(jobs))


def list_rows(path):
    names = "id userid t_submit t_run t_inactive ranks R jobspec project bank requested_duration actual_duration".split()
    found = sqlite3.connect(path).execute(f"SELECT {', '.join(names)} FROM jobs ORDER BY CAST(id AS integer)")
    for row in found:
        row = dict(zip(names, row))
        for name in ("R", "jobspec"):
            row[name] = json.loads(row[name])
        # An archive keeps the first R, without later changes of the time limit.
        row["R"]["execution"].pop("expiration")
        yield row


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        for one, other in zip(list_rows(sys.argv[2]), list_rows(sys.argv[3]), strict=True):
            assert one == other, f"{one}\n{other}"
    else:
        write_archive(sys.argv[1])
