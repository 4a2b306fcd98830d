#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Plays the same history through update-usage of flux-accounting and through `flux fairshare sync`, for each of the faults 1 to 11
of docs/design/usage.md.

usage: flux python usage-faults.py PROGRAM [NUMBER...]

Prints one line for each fault: its number, the counted usage, the result of update-usage, the result of sync, and the differences that
`flux fairshare recount` reports for the database of update-usage. The real update_job_usage runs here, with a simulated clock.
"""
import contextlib
import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import types

from fluxacct.accounting import create_db, db_info_subcommands, user_subcommands
from fluxacct.accounting import job_usage_calculation as real

CLOCK = types.SimpleNamespace(time=lambda: CLOCK.now, now=0.0)
real.time = db_info_subcommands.time = CLOCK
logging.disable(logging.CRITICAL)
H = 604800
CREATED = 1_700_000_000.0
END = CREATED + H
R = json.dumps({"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}]}})


class Site:
    """One history, played in two databases."""

    def __init__(self, room, program):
        self.program = program
        self.paths = [os.path.join(room, name) for name in ("theirs", "ours")]
        shutil.copy(os.path.join(room, "template"), self.paths[0])
        self.jobs = 0
        with self.open_database(0) as db:
            db.execute("UPDATE t_half_life_period_table SET end_half_life_period=?", (str(END),))
            db.execute("INSERT INTO bank_table (bank, shares) VALUES ('root', 1)")
            db.execute("INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A', 'root', 1)")
            db.commit()
        shutil.copy(*self.paths)

    @contextlib.contextmanager
    def open_database(self, which):
        with contextlib.closing(sqlite3.connect(self.paths[which])) as db:
            db.row_factory = sqlite3.Row
            yield db

    def run_on_both(self, sql, *values):
        for which in (0, 1):
            with self.open_database(which) as db:
                db.execute(sql, values)
                db.commit()

    def add_user(self, uid, bank="A"):
        for which in (0, 1):
            with self.open_database(which) as db:
                db.execute("INSERT INTO association_table (creation_time, username, userid, bank, default_bank) "
                           "VALUES (?, ?, ?, ?, ?)", (int(CREATED), f"u{uid}", uid, bank, bank))
                db.execute("INSERT INTO job_usage_factor_table (username, userid, bank) VALUES (?, ?, ?)",
                           (f"u{uid}", uid, bank))
                user_subcommands.insert_per_assoc_usage_rows(db, db.cursor(), f"u{uid}", uid, bank)
                db.commit()

    def add_job(self, uid, ended, used, bank="A", r=R):
        self.jobs += 1
        self.run_on_both("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, '0', ?, '{}', '', ?, 0, 0)",
                  self.jobs, uid, ended - used, ended - used, ended, r, bank)

    def run_programs(self, now):
        """Runs both programs and returns their exit statuses."""
        self.now = CLOCK.now = now
        theirs = 0  # its main() ends with 0 after an exception, too
        with self.open_database(0) as db:
            with contextlib.suppress(Exception):
                real.update_job_usage(db)
        command = [self.program, "sync", "--only", "usage", "--now", repr(now), "-p", self.paths[1]]
        done = subprocess.run(command, capture_output=True, text=True)
        self.said = done.stderr
        return theirs, done.returncode

    def read_usages(self, uid):
        return [self.read_number(which, "SELECT job_usage FROM association_table WHERE userid=?", uid) for which in (0, 1)]

    def read_bank_usages(self, name):
        return [self.read_number(which, "SELECT job_usage FROM bank_table WHERE bank=?", name) for which in (0, 1)]

    def read_number(self, which, sql, *values):
        with self.open_database(which) as db:
            return db.execute(sql, values).fetchone()[0]

    def list_differences(self):
        """Returns the differences that recount reports for the database of update-usage."""
        command = [self.program, "recount", "--json", "--now", repr(self.now), "-p", self.paths[0]]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            return done.stderr.strip()
        differences = sorted(json.loads(done.stdout)["differences"], key=lambda row: (row["user"] or row["bank"], row["bank"]))
        show = lambda row: f'{row["user"] or row["bank"]} {row["stored"]:g}>{row["recounted"]:g}{" due" * row["due"]}'
        return ", ".join(show(row) for row in differences if row["bank"] != "root")


def fault_1(site):
    """usage after 1000, a boundary, 100 and 10 more"""
    site.add_user(1)
    site.add_job(1, END + 10, 1000)
    site.run_programs(END + 100)
    site.add_job(1, END + H + 10, 100)
    site.run_programs(END + H + 100)
    site.add_job(1, END + H + 200, 10)
    site.run_programs(END + H + 300)
    return site.read_usages(1)


def fault_2(site):
    """usage of 1000, of 100 just before the boundary and nothing since"""
    site.add_user(1)
    site.add_job(1, END + 10, 1000)
    site.run_programs(END + 100)
    site.add_job(1, END + H - 10, 100)
    site.run_programs(END + H + 100)
    return site.read_usages(1)


def fault_3(site):
    """usages of three users with 1000 in one period and 110, 100 and 0 around its end"""
    for uid in (1, 2, 3):
        site.add_user(uid)
        site.add_job(uid, END + 10, 1000)
    site.run_programs(END + 100)
    site.add_job(2, END + H - 10, 100)
    site.add_job(1, END + H + 10, 100)
    site.run_programs(END + H + 100)
    site.add_job(1, END + H + 200, 10)
    site.run_programs(END + H + 300)
    return list(zip(*(site.read_usages(uid) for uid in (1, 2, 3))))


def fault_4(site):
    """usage of 1000 after an outage over three boundaries"""
    site.add_user(1)
    site.add_job(1, END + 10, 1000)
    site.run_programs(END + 100)
    site.run_programs(END + 3 * H + 100)
    return site.read_usages(1)


def fault_5(site):
    """usage of 1000 in the first period, right after its end"""
    site.add_user(1)
    site.add_job(1, CREATED + 10, 1000)
    site.run_programs(CREATED + 100)
    site.run_programs(END + 100)
    return site.read_usages(1)


def fault_6(site):
    """usage of 1000 that ended in one period, fetched in the next with a job of 10"""
    site.add_user(1)
    site.run_programs(END + 100)
    site.add_job(1, END + H - 10, 1000)
    site.add_job(1, END + H + 10, 10)
    site.run_programs(END + H + 100)
    return site.read_usages(1)


def fault_7(site):
    """usage of 100, and of 1000 that ended before it and arrived after it"""
    site.add_user(1)
    site.add_job(1, END + 200, 100)
    site.run_programs(END + 300)
    site.add_job(1, END + 100, 1000)
    site.run_programs(END + 400)
    return site.read_usages(1)


def fault_8(site):
    """usage of a bank whose user used 1000 and whose sub-bank used 10"""
    site.run_on_both("INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A1', 'A', 1)")
    site.add_user(1)
    site.add_user(2, "A1")
    site.add_job(1, END + 10, 1000)
    site.add_job(2, END + 10, 10, "A1")
    site.run_programs(END + 100)
    return site.read_bank_usages("A")


def fault_9(site):
    """usage of 1000 by a job that names no bank"""
    site.add_user(1)
    site.add_job(1, END + 10, 1000, "")
    site.run_programs(END + 100)
    return site.read_usages(1)


def fault_10(site):
    """exit status if the database is unusable"""
    site.add_user(1)
    site.run_on_both("DELETE FROM t_half_life_period_table")
    return list(site.run_programs(END + 100))


def fault_11(site):
    """usage of 1000, and of 10 after the half-life was changed"""
    site.add_user(1)
    site.add_job(1, END + 10, 1000)
    site.run_programs(END + 100)
    CLOCK.now = END + 200
    for which in (0, 1):
        with site.open_database(which) as db:
            db.execute("UPDATE config_table SET value=? WHERE key='priority_decay_half_life'", (str(2 * H),))
            db_info_subcommands.reconfigure_usage_bins(db)
    site.add_job(1, END + 250, 10)
    site.run_programs(END + 300)
    return site.read_usages(1)


def main():
    program, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as room:
        create_db.create_db(os.path.join(room, "template"))
        for number in range(1, 12):
            if wanted and str(number) not in wanted:
                continue
            site = Site(room, program)
            fault = globals()[f"fault_{number}"]
            theirs, ours = fault(site)
            show = lambda result: "/".join(f"{n:g}" for n in (result if isinstance(result, tuple) else (result,)))
            print(f"{number} | {fault.__doc__} | {show(theirs)} | {show(ours)} | {site.list_differences()}", flush=True)


if __name__ == "__main__":
    main()
