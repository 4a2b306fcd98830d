# SPDX-License-Identifier: LGPL-3.0-only
"""Accounting databases for the report: a demo site, a site of any size, and a site with hostile names."""

import random
import sqlite3
import time

WEEK = 604800.0
SCHEMA = """
    PRAGMA user_version = 38;
    CREATE TABLE association_table (
        creation_time bigint NOT NULL DEFAULT 0, active int NOT NULL DEFAULT 1, username tinytext NOT NULL,
        userid int NOT NULL DEFAULT 65534, bank tinytext NOT NULL, default_bank tinytext NOT NULL DEFAULT '',
        shares int NOT NULL DEFAULT 1, job_usage real NOT NULL DEFAULT 0, fairshare real NOT NULL DEFAULT 0.5,
        PRIMARY KEY (username, bank));
    CREATE TABLE bank_table (
        bank_id integer PRIMARY KEY AUTOINCREMENT, bank text NOT NULL, active int NOT NULL DEFAULT 1,
        parent_bank text DEFAULT '', shares int NOT NULL, job_usage real NOT NULL DEFAULT 0);
    CREATE TABLE config_table (key text PRIMARY KEY NOT NULL, value text NOT NULL);
    CREATE TABLE t_half_life_period_table (cluster text PRIMARY KEY, end_half_life_period real);
    CREATE TABLE job_usage_per_association_table (
        username tinytext NOT NULL, userid int NOT NULL, bank tinytext NOT NULL, period int NOT NULL,
        value real DEFAULT 0, PRIMARY KEY (username, bank, period));
    CREATE TABLE job_usage_factor_table (
        username tinytext NOT NULL, userid int NOT NULL, bank tinytext NOT NULL, last_job_timestamp real DEFAULT 0,
        PRIMARY KEY (username, bank));
"""
JOBS = """
    CREATE TABLE jobs (
        id char(16) PRIMARY KEY NOT NULL, userid int NOT NULL, t_submit real NOT NULL, t_run real NOT NULL, t_inactive real NOT NULL,
        ranks text NOT NULL, R text NOT NULL, jobspec text NOT NULL, project text, bank text, requested_duration real, actual_duration real);
"""
USERS = """ada alan alba amir anna aron astrid ayla bela boris carl carmen cem chen clara dana david dunja edgar elena emil
    erik esra fabio farid felix finn freya georg gina goran greta hana heidi hugo ida igor ines ivan jana jens jiri jonas
    juli kaan karla kira lars laura leo lin lotte luca maja malte mara marek mila nadia nils nora olga oskar paula petra
    quinn rafael ravi rosa ruth samir sara silas sina sofia stefan sven tara theo tilda timo uma vera viktor wanda wei
    xenia yara yusuf zoe""".split()


def job(userid, bank, nodes, run, end):
    """Returns a job of whole nodes, as a row of the jobs table without its id."""
    ranks = "0" if nodes == 1 else f"0-{nodes - 1}"
    r = '{"version": 1, "execution": {"R_lite": [{"rank": "%s", "children": {"core": "0-3"}}]}}' % ranks
    return userid, run - 60, run, end, ranks, r, "{}", "*", bank, end - run, end - run


def pieces(dice, userid, bank, used, begin, end):
    """Returns jobs with a total usage in a period, each of a day at most."""
    left, jobs = int(used), []
    while left > 0:
        nodes = dice.choice([1, 2, 4, 8, 16, 32, 64])
        piece = min(left, max(1, int(nodes * dice.uniform(600, min(86400, end - begin)))))
        run = dice.uniform(begin, end - piece / nodes)
        jobs.append(job(userid, bank, nodes, run, run + piece / nodes))
        left -= piece
    return jobs


def make(path, banks, users, periods, now=None, jobs=()):
    """Makes a database. banks: (name, parent, shares); users: (name, bank, shares, [undecayed usage by period]). Usage decays by half each
    week. jobs: rows of the jobs table, which is missing without jobs."""
    now = time.time() if now is None else now
    db = sqlite3.connect(path)
    db.executescript(SCHEMA)
    db.executemany("INSERT INTO bank_table (bank, parent_bank, shares) VALUES (?, ?, ?)", banks)
    counts = [[used / 2 ** period for period, used in enumerate(bins)] for _, _, _, bins in users]
    rows = [(name, at + 5001, bank, bank, shares, sum(bins)) for at, ((name, bank, shares, _), bins) in enumerate(zip(users, counts))]
    db.executemany("INSERT INTO association_table (username, userid, bank, default_bank, shares, job_usage) VALUES (?, ?, ?, ?, ?, ?)", rows)
    bins = ((user[0], at + 5001, user[1], period, used) for at, (user, used_by) in enumerate(zip(users, counts))
            for period, used in enumerate(used_by) if used)
    db.executemany("INSERT INTO job_usage_per_association_table VALUES (?, ?, ?, ?, ?)", bins)
    settings = [("priority_decay_half_life", str(WEEK)), ("priority_usage_reset_period", str(periods * WEEK)), ("decay_factor", "0.5")]
    db.executemany("INSERT INTO config_table VALUES (?, ?)", settings)
    if jobs:
        db.executescript(JOBS)
        db.executemany(f"INSERT INTO jobs VALUES (?, {', '.join('?' * 11)})", ((str(at), *row) for at, row in enumerate(jobs)))
    db.execute("INSERT INTO t_half_life_period_table VALUES ('cluster', ?)", (now + 0.4 * WEEK,))
    db.commit()
    db.close()


def demo(path, now=None):
    """Makes a site of five departments, some with groups, and 96 associations, with eight weeks of jobs that gave its usage."""
    now = time.time() if now is None else now
    dice = random.Random(17)
    banks = [("root", "", 1), ("physics", "root", 40), ("chemistry", "root", 25), ("biology", "root", 20), ("engineering", "root", 12),
             ("teaching", "root", 3), ("astro", "physics", 5), ("plasma", "physics", 3), ("quantum", "physics", 2),
             ("catalysis", "chemistry", 1), ("polymers", "chemistry", 1), ("genomics", "biology", 3), ("ecology", "biology", 1),
             ("fluids", "engineering", 2), ("materials", "engineering", 1)]
    # `busy` is the usage of each department divided by its share. `trend` is the factor by which the usage of a department changes each
    # week.
    busy = {"astro": 1.7, "plasma": 1.0, "quantum": 0.4, "catalysis": 1.1, "polymers": 0.55, "genomics": 1.6, "ecology": 0.25,
            "fluids": 0.9, "materials": 1.35, "teaching": 0.3}
    trend = {"astro": 1.12, "genomics": 1.2, "catalysis": 0.9, "plasma": 0.97, "fluids": 1.05}
    share = {"astro": 20, "plasma": 12, "quantum": 8, "catalysis": 12.5, "polymers": 12.5, "genomics": 15, "ecology": 5, "fluids": 8,
             "materials": 4, "teaching": 3}
    groups = list(busy)
    users = []
    for at, name in enumerate(USERS):
        bank = groups[at % len(groups)] if dice.random() < 0.6 else dice.choice(["astro", "genomics", "catalysis", "plasma", "fluids"])
        weight = dice.lognormvariate(0, 1.1) * (0 if dice.random() < 0.08 else 1)
        base = 3600.0 * 24 * 3 * share[bank] * busy[bank] * weight
        bins = [round(base * trend.get(bank, 1.0) ** -week * dice.uniform(0.55, 1.45) * (0.4 if week == 0 else 1)) for week in range(8)]
        users.append((name, bank, dice.choice([1, 1, 1, 2, 4]), bins))
    users.append(("ada", "quantum", 2, [0, 400000.0, 900000.0, 0, 0, 0, 0, 0]))
    jobs, began = [], now - 0.6 * WEEK
    for at, (_, bank, _, bins) in enumerate(users):
        for week, used in enumerate(bins):
            begin = began - week * WEEK
            # Some jobs name no bank and count in the default bank.
            named = "" if week % 3 == 0 else bank
            jobs += pieces(dice, at + 5001, named, used, begin, min(begin + WEEK, now))
    # These jobs add no usage: the user is unknown, or the user does not belong to the bank.
    jobs += [job(4999, "astro", 64, now - WEEK, now - 0.5 * WEEK), job(5001, "no-such-bank", 64, now - WEEK, now - 0.5 * WEEK)]
    make(path, banks, users, 8, now, jobs)


def late(path):
    """Makes the demo site with two boundaries that were not counted."""
    demo(path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE t_half_life_period_table SET end_half_life_period = end_half_life_period - ?", [3 * WEEK])


def large(path, associations, now=None):
    """Makes a site of any size: banks on three levels, four weeks, two jobs for each association."""
    dice = random.Random(associations)
    banks, leaves = [("root", "", 1)], []
    for area in range(10):
        banks.append((f"area{area}", "root", dice.randint(1, 40)))
        for group in range(max(1, associations // 1000)):
            name = f"area{area}-group{group}"
            banks.append((name, f"area{area}", dice.randint(1, 20)))
            leaves.append(name)
    users = [(f"user{at:06}", leaves[dice.randrange(len(leaves))], dice.randint(1, 10),
              [float(int(dice.expovariate(1e-6))) if dice.random() < 0.8 else 0.0 for _ in range(4)]) for at in range(associations)]
    now = time.time() if now is None else now
    ends = ((dice.randrange(associations), dice.uniform(now - 3.5 * WEEK, now)) for _ in range(2 * associations))
    jobs = [job(at + 5001, users[at][1], dice.choice([1, 2, 8]), end - dice.uniform(600, 86400), end) for at, end in ends]
    make(path, banks, users, 4, now, jobs)


# Names that do harm if a page or terminal takes them for markup, a script, an address or a control sequence.
HOSTILE = [
    "</script><script>window.hit=1</script>", "<img src=x onerror=window.hit=2>", "\"><svg onload=window.hit=3>",
    "' onfocus=window.hit=4 autofocus '", "<!--<script>", "]]></title><b>", "javascript:window.hit=5", "{{script}}{{data}}", "${window.hit=6}",
    "&lt;b&gt;", "a\u202egnp.exe", "\u2066left\u2069", "bell\x07esc\x1b[31m", "line\nbreak\u2028\u2029", "__proto__", "constructor", "=1+1",
    "%00%2F../..", "#user=x&bank=y", "\ud55c\uae00 \U0001f600 e\u0301", " ", "x" * 3000,
]


def hostile(path, now=None):
    banks = [("root", "", 1)] + [(f"bank {name}", "root", at + 1) for at, name in enumerate(HOSTILE)]
    banks += [("</style><script>window.hit=7</script>", "root", 30)]
    users = [(name, f"bank {HOSTILE[(at + 1) % len(HOSTILE)]}", at % 3 + 1, [1e6 * (at % 5), 5e5]) for at, name in enumerate(HOSTILE)]
    users += [(name, "</style><script>window.hit=7</script>", 1, [1e5 * at]) for at, name in enumerate(HOSTILE)]
    make(path, banks, users, 4, now)


def hundred(path):
    """Makes a site of 100 banks with one user each; the largest has 2 % of the shares."""
    banks = [("root", "", 1)] + [(f"bank{at:02}", "root", 100 if at else 200) for at in range(100)]
    make(path, banks, [(f"user{at:02}", f"bank{at:02}", 1, [1e6 * (1 + at % 3)]) for at in range(100)], 4)
