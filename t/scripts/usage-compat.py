#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Runs flux-accounting's update-usage and `flux fairshare sync` on random accounting databases, and compares the results.

usage: flux python usage-compat.py PROGRAM same|faults [COUNT] [SEED]

same    histories without a half-life boundary, late record or unnamed bank, under the rule "exact"
faults  all histories, across boundaries and outages, under the rule "flux-accounting"

After each run of both programs, all tables of flux-accounting must be equal to the last digit. The real update_job_usage runs
in this process, with a simulated clock. Prints one line at the end; exits with 1 at the first difference.
"""
import contextlib
import io
import json
import logging
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import types

from fluxacct.accounting import create_db, user_subcommands
from fluxacct.accounting import job_usage_calculation as real

CLOCK = types.SimpleNamespace(time=lambda: CLOCK.now, now=0.0)
real.time = CLOCK
logging.disable(logging.CRITICAL)
START = 1_700_000_000.0


def make_random_r(rng):
    """Returns the R of a job: mostly valid, sometimes broken."""
    if rng.random() < 0.03:
        return rng.choice(['', '{}', 'null', '{"version": 2}', '[1]', '{"version": 1, "execution": {}}',
                           '{"version":1,"execution":{"R_lite":[{"rank":"3,1"}]}}'])
    first = rng.randrange(50)
    last = first + rng.choice([0, 0, 1, 7, 99])
    entries = [{"rank": str(first) if first == last else f"{first}-{last}",
                "children": {"core": rng.choice(["0", "0-3", "0,2,5-7", "0-63"])}}]
    if rng.random() < 0.3:
        entries[0]["children"]["gpu"] = rng.choice(["0", "0-3", "1,3"])
    if rng.random() < 0.2:
        entries.append({"rank": f"{last + 2},{last + 5}", "children": {"core": "0-1"}})
    return json.dumps({"version": 1, "execution": {
        "R_lite": entries, "nodelist": ["n[0-200]"], "starttime": rng.random() * 1e9, "expiration": 0}})


def pick_time(rng, low, high):
    """Returns a random time, as fine as Flux's or a multiple of 1/64 s, where rounding has ties."""
    instant = rng.uniform(low, high)
    return round(instant * 64) / 64 if rng.random() < 0.3 else instant


class History:
    """A random site and its history."""

    def __init__(self, rng, path, same):
        self.rng, self.same = rng, same
        self.half_life = rng.choice([3600, 86400, 604800])
        self.periods = rng.choice([1, 2, 4, 6])
        # The slow parts of create_db ran once, for the template.
        self.db = sqlite3.connect(path)
        self.newest = {}
        self.jobs = 0
        self.end = START + self.half_life
        # The history begins one half-life before the stored end of the period, or exactly at that end.
        self.begin = rng.choice([START, START + self.half_life])
        self.now = self.begin
        config = {"priority_decay_half_life": self.half_life,
                  "priority_usage_reset_period": self.half_life * self.periods,
                  "decay_factor": rng.choice([0.5, 0.5, 0.7, 0.25]),
                  "node_weight": rng.choice(["1.0", "1.0", "0.0", "2.5"]),
                  "core_weight": rng.choice(["0.0", "0.1", "1"]),
                  "gpu_weight": rng.choice(["0.0", "10.5"])}
        if rng.random() < 0.2:
            config["reconfigure_time"] = pick_time(rng, self.begin - 100, self.begin + self.half_life / 8)
        for key, value in config.items():
            self.db.execute("INSERT OR REPLACE INTO config_table VALUES (?, ?)", (key, value))
        self.db.execute("UPDATE t_half_life_period_table SET end_half_life_period=?", (str(self.end),))
        self.add_banks()
        self.add_users()
        self.db.commit()

    def add_banks(self):
        rng, banks = self.rng, ["root"]
        self.db.execute("INSERT INTO bank_table (bank, shares) VALUES ('root', 1)")
        parents = {"root"}
        for number in range(rng.randrange(1, 8)):
            parent = rng.choice(banks)
            parents.add(parent)
            banks.append(f"b{number}")
            ignore = pick_time(rng, self.begin, self.begin + 100) if rng.random() < 0.15 else 0
            self.db.execute("INSERT INTO bank_table (bank, parent_bank, shares, ignore_older_than, active) "
                            "VALUES (?, ?, 1, ?, ?)", (banks[-1], parent, int(ignore), rng.random() < 0.9))
        # If `same` is true, both rules of usage must give the same result. The rules differ for users in a bank with sub-banks, so only banks
        # without sub-banks get users.
        self.banks = [bank for bank in banks if bank not in parents] if self.same else banks

    def add_users(self):
        rng, cur = self.rng, self.db.cursor()
        self.users = []
        for uid in range(5001, 5001 + rng.randrange(1, 8)):
            if not self.same and rng.random() < 0.1:
                # A former name of the user, whose associations were removed.
                self.db.execute("INSERT INTO job_usage_factor_table (username, userid, bank) VALUES (?, ?, ?)",
                                (f"former{uid}", uid, rng.choice(self.banks)))
            places = rng.sample(self.banks, rng.randrange(1, min(3, len(self.banks)) + 1))
            for bank in places:
                self.db.execute(
                    "INSERT INTO association_table (creation_time, username, userid, bank, default_bank, active) "
                    "VALUES (0, ?, ?, ?, ?, ?)", (f"u{uid}", uid, bank, places[0], rng.random() < 0.9))
                self.db.execute("INSERT INTO job_usage_factor_table (username, userid, bank) VALUES (?, ?, ?)",
                                (f"u{uid}", uid, bank))
                user_subcommands.insert_per_assoc_usage_rows(self.db, cur, f"u{uid}", uid, bank)
                self.users.append((uid, bank))
                if rng.random() < 0.5:
                    values = [rng.choice([0.0, rng.random() * 10 ** rng.randrange(1, 7)])
                              for _ in range(self.periods)]
                    for period, value in enumerate(values):
                        self.db.execute("UPDATE job_usage_per_association_table SET value=? "
                                        "WHERE username=? AND bank=? AND period=?", (value, f"u{uid}", bank, period))
                    self.db.execute("UPDATE association_table SET job_usage=? WHERE username=? AND bank=?",
                                    (sum(values), f"u{uid}", bank))

    def add_jobs(self, low, high):
        """Adds jobs that end in this time; in `faults` some ended earlier or name no bank."""
        rng = self.rng
        jobs = []
        for _ in range(rng.choice([0, 1, 3, 20])):
            uid, bank = rng.choice(self.users + [(4999, "b0"), (5001, "nowhere")] * (rng.random() < 0.2))
            ended = pick_time(rng, low, high)
            if not self.same:
                if rng.random() < 0.1:
                    ended -= rng.uniform(0, 2 * self.half_life)
                if rng.random() < 0.05:
                    bank = rng.choice(["", None])
            jobs.append((ended, uid, bank))
        rng.shuffle(jobs)
        for ended, uid, bank in jobs:
            self.jobs += 1
            started = ended - rng.choice([60.0, rng.uniform(0.01, 1000), 3600 * rng.random()])
            self.db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, '0', ?, '{}', '', ?, 60, 60)",
                            (self.jobs, uid, started - 1, started, ended, make_random_r(rng), bank))
        self.db.commit()

    def step(self):
        """Lets time pass and jobs end, and returns the time of the next run."""
        rng, before = self.rng, self.now
        if self.same:
            self.now = pick_time(rng, before, self.begin + self.half_life * 0.999)
        else:
            self.now = before + self.half_life * rng.choice([0.01, 0.2, 0.5, 0.9, 1.0, 1.1, 2.5])
        self.add_jobs(before, self.now)
        return self.now


def read_tables(path, names):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def run_real(path, now):
    CLOCK.now = now
    with contextlib.closing(sqlite3.connect(path)) as db, contextlib.redirect_stdout(io.StringIO()):
        db.execute("PRAGMA foreign_keys = 1")
        db.execute("PRAGMA synchronous = OFF")
        real.update_job_usage(db)


def run_ours(program, path, now, rule):
    command = [program, "sync", "--only", "usage", "--usage-rule", rule, "--now", repr(now), "-p", path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}: {done.stderr}")


def main():
    program, mode = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    rule = {"same": "exact", "faults": "flux-accounting"}[mode]
    runs = moved = 0
    shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shm) as room:
        template, theirs, ours = (os.path.join(room, name) for name in ("template", "theirs", "ours"))
        create_db.create_db(template)
        with contextlib.closing(sqlite3.connect(template)) as db:
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        for number in range(count):
            rng = random.Random(seed * 1_000_003 + number)
            shutil.copy(template, theirs)
            history = History(rng, theirs, mode == "same")
            shutil.copy(theirs, ours)
            for _ in range(rng.randrange(1, 6)):
                if not history.same and rng.random() < 0.1:
                    CLOCK.now = history.now
                now = history.step()
                with contextlib.closing(sqlite3.connect(ours)) as db:
                    db.execute("ATTACH ? AS theirs", (theirs,))
                    db.execute("INSERT OR IGNORE INTO jobs SELECT * FROM theirs.jobs ORDER BY rowid")
                    db.commit()
                before = read_tables(theirs, ["job_usage_per_association_table"])
                run_real(theirs, now)
                run_ours(program, ours, now, rule)
                wanted, found = read_tables(theirs, names), read_tables(ours, names)
                runs += 1
                moved += wanted["job_usage_per_association_table"] != before["job_usage_per_association_table"]
                for name in names:
                    if wanted[name] != found[name]:
                        print(f"database {number} (seed {seed}), run at {now!r}: {name} differs")
                        for one, other in zip(wanted[name], found[name]):
                            if one != other:
                                print(f"  update-usage: {one!r}\n  sync:         {other!r}")
                        for kept in (theirs, ours):
                            shutil.copy(kept, os.path.join(tempfile.gettempdir(), f"differs-{os.path.basename(kept)}.db"))
                        return 1
            history.db.close()
    if moved == 0:
        print("nothing ever changed: this proves nothing")
        return 1
    print(f"{count} databases, {runs} runs ({moved} moved usage): all tables equal by rule {rule}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
