# SPDX-License-Identifier: LGPL-3.0-only
"""The recorder of a soak: starts the actors, writes a row each minute, and a verdict at the end.

usage: soak.py PLUGIN MINUTES JOBS LEAVES LIVE
"""
import errno
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict

import flux
import flux.kvs
from actors import PAUSE, USERS, Changes, handle_of, texts_of
from bench import handle, memory, used
from flux import job

path, minutes, jobs, leaves, live = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
HERE = os.path.dirname(os.path.abspath(__file__))
SERVICE = "job-manager.mf_priority."
MIB = 1 << 20
# If the instance grows by more than this number of bytes for each job, it has a leak. The record of an ended
# job would take hundreds of bytes.
BYTES_PER_JOB = 64
# JUDGED lists the costs that must not grow. SLOWER is the maximum ratio between the cost in the last quarter of the soak and the cost in
# the first quarter. ALONE is the number of requests in a measurement.
JUDGED, SLOWER, ALONE = ("cpu_submit", "cpu_explain", "cpu_push"), 1.5, 50
# These are the job states NEW, RUN and CLEANUP. A job in another state keeps its state while the queues are stopped.
MOVING = (1, 16, 32)


class Actors:
    """The processes, and their reports since the last row."""

    def __init__(self):
        self.lock, self.lists, self.last, self.processes = threading.Lock(), defaultdict(list), {}, []

    def start(self, *args):
        command = [sys.executable, os.path.join(HERE, "actors.py"), *map(str, args)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append((args[0], process))
        threading.Thread(target=self.read, args=(process,), daemon=True).start()

    def read(self, process):
        for line in process.stdout:
            with self.lock:
                for key, value in json.loads(line).items():
                    self.lists[key].append(value)
                    self.last[key] = value

    def taken(self):
        with self.lock:
            lists, self.lists = self.lists, defaultdict(list)
            return lists, dict(self.last)

    def rest(self):
        """Waits until all actors pause and all their requests are answered."""
        with open(PAUSE, "w", encoding="utf-8"):
            pass
        end = time.monotonic() + 60
        while len({who for who in self.told("paused")}) < len(self.processes) and not self.dead() and time.monotonic() < end:
            time.sleep(0.05)

    def go_on(self):
        os.unlink(PAUSE)
        with self.lock:
            self.lists.pop("paused", None)

    def told(self, key):
        with self.lock:
            return list(self.lists[key])

    def dead(self):
        return [name for name, process in self.processes if process.poll() is not None]

    def stop(self):
        for _, process in self.processes:
            process.kill()


def part(times, q):
    """Returns a quantile in milliseconds."""
    if len(times) < 2:
        return float("nan")
    return 1000 * statistics.quantiles(times, n=100, method="inclusive")[q - 1]


def ask(method, payload=None):
    try:
        return json.loads(handle.rpc(SERVICE + method, json.dumps(payload or {})).get_str())
    except OSError as exc:
        if exc.errno in (errno.ENOSYS, errno.EAGAIN):
            return None
        raise


def meter():
    """Returns the allocated bytes of the broker and of the thread of the job manager."""
    told = handle.rpc("job-manager.meter.memory", {}).get()
    return told["used"] / MIB, told["job_manager"] / MIB


def complaints():
    """Returns the errors and warnings that the broker has logged since the last call."""
    lines = subprocess.run(["flux", "dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()
    subprocess.run(["flux", "dmesg", "-C"], check=True)
    return [line for line in lines if any(word in line for word in ("BUG:", "panic", "callback returned error"))]


def timed(act):
    start = time.monotonic()
    result = act()
    return time.monotonic() - start, result


def put():
    flux.kvs.put(handle, "soak.probe", time.monotonic())
    flux.kvs.commit(handle)


def probed(seconds):
    """Times a submission and its explanation, at most once a second, and next to them a commit of the KVS, which a submission needs, and
    the shortest request to the job manager."""
    times, end = defaultdict(list), time.monotonic() + seconds
    while time.monotonic() < end:
        times["put"].append(timed(put)[0])
        try:
            took, one = timed(lambda: job.submit_async(prober, probe, pre_signed=True).get_id())
            times["submit"].append(took)
            times["ping"].append(timed(lambda: handle.rpc("job-manager.getinfo", {}).get())[0])
            times["explain"].append(timed(lambda: ask("explain", {"jobs": [one]}))[0])
        except OSError as exc:
            # The requests fail if a limit rejects the job, or while the plugin is reloaded.
            if exc.errno not in (errno.EINVAL, errno.ENOSYS, errno.EAGAIN, errno.ENOENT, errno.EPERM):
                raise
        time.sleep(1)
    return times


def purge():
    """Purges ended jobs: with each heartbeat Flux purges only a hundred of those over its limit."""
    own = flux.Flux()
    while True:
        try:
            while own.rpc("job-manager.purge", dict(age_limit=-1.0, num_limit=1000, batch=100, force=True)).get()["count"] > 0:
                pass
        except OSError:
            pass
        time.sleep(1)


def tidy():
    """Removes directories of purged jobs from the KVS. Flux keeps a directory for each quarter of a second with a submission, and each
    commit writes the list of all: 2,700 after twenty minutes, when a job took half as much time again in the KVS."""
    own = flux.Flux()
    while True:
        time.sleep(20)
        # The KVS directory of a job is job.A.B.C.D. A and B are the upper half of the job id.
        known = {one["id"] >> 32 for one in own.rpc("job-list.list", {"max_entries": 0, "attrs": []}).get()["jobs"]}
        latest = max(known, default=0) - 4 * 60
        for above in flux.kvs.get_dir(own, "job").directories():
            for below in list(flux.kvs.get_dir(own, f"job.{above}").directories()):
                quarter = int(above + below, 16)
                if quarter < latest and quarter not in known:
                    flux.kvs.put_unlink(own, f"job.{above}.{below}")
            flux.kvs.commit(own)


def ping():
    handle.rpc("job-manager.getinfo", {}).get()


def spent(act, idle=0.0):
    """Returns the processor time in milliseconds that `act` takes in the thread of the job manager, until the job manager serves again.
    The time that the thread uses without requests is subtracted."""
    ping()
    start, cpu = time.monotonic(), used()
    act()
    ping()
    return 1000 * (used() - cpu - idle * (time.monotonic() - start))


def at_rest(seconds):
    """Waits until no job starts, runs or ends, and returns whether that happened."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        jobs = handle.rpc("job-manager.list", {"max_entries": 0, "attrs": ["state"]}).get()["jobs"]
        if not any(one["state"] in MOVING for one in jobs):
            return True
        time.sleep(0.2)
    return False


def alone():
    """Measures single requests in the thread of the job manager while all actors pause, the queues are stopped and no job runs: the shortest
    request, a job from its submission to its priority, its explanation, and a push of a whole document. Also returns the number of live jobs."""
    costs = dict(live=0) | dict.fromkeys(("cpu_ping", *JUDGED), float("nan"))
    actors.rest()
    subprocess.run(["flux", "queue", "stop", "--all", "--quiet"], check=True)
    try:
        if not at_rest(20):
            return costs
        if is_ours:
            # Weights, limits and policies affect the measured costs. So each measurement first pushes the same data.
            conf = handle.rpc("config.get").get()
            conf["fairshare"] = dict(refresh="5s")
            handle.rpc("config.load", conf).get()
            standard["tree"]["at"] = time.time()
            ask("policy_update", standard)
            time.sleep(2)
        start, cpu = time.monotonic(), used()
        time.sleep(2)
        idle = (used() - cpu) / (time.monotonic() - start)
        costs["cpu_ping"] = spent(lambda: [ping() for _ in range(ALONE)], idle) / ALONE
        costs["live"] = handle.rpc("job-manager.stats-get", {}).get()["active_jobs"]

        sent = []

        def priced():
            sent.extend(future.get_id() for future in [job.submit_async(prober, probe, pre_signed=True) for _ in range(ALONE)])
            for one in sent:
                job.event_wait(handle, one, "priority")

        costs["cpu_submit"] = spent(priced, idle) / ALONE
        if is_ours:
            # No limit holds the jobs in `sent`. For a held job, the plugin would examine all held jobs before it, and the cost would vary.
            costs["cpu_explain"] = spent(lambda: [ask("explain", {"jobs": [one]}) for one in sent], idle) / ALONE
            costs["cpu_push"] = spent(lambda: ask("policy_update", standard), idle)
    except OSError as exc:
        # A submission may fail because its user is at a limit.
        print(f"    not measured: {exc}", flush=True)
    finally:
        subprocess.run(["flux", "queue", "start", "--all", "--quiet"], check=True)
        actors.go_on()
    return costs


def slope(rows, key):
    """Returns the growth of a column per hour by least squares, and half the width of its 95 % interval."""
    xs, ys = [row["minute"] / 60 for row in rows], [row[key] for row in rows]
    if len(xs) < 4:
        return float("nan"), float("nan")
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    rate = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / spread
    rest = sum((y - mean_y - rate * (x - mean_x)) ** 2 for x, y in zip(xs, ys))
    return rate, 1.96 * (rest / (len(xs) - 2) / spread) ** 0.5


def quarters(rows, key):
    values = [row[key] for row in rows if row[key] == row[key]]
    size = max(1, len(values) // 4)
    return statistics.median(values[:size]), statistics.median(values[-size:])


COLUMNS = [
    ("minute", 6, "{:.0f}"), ("jobs", 8, "{}"), ("refused", 8, "{}"), ("alive", 6, "{}"), ("held", 6, "{}"), ("ended", 6, "{}"),
    ("rss", 7, "{:.1f}"), ("broker", 7, "{:.1f}"), ("manager", 7, "{:.2f}"), ("own", 6, "{:.2f}"), ("cpu", 6, "{:.2f}"),
    ("live", 5, "{}"), ("cpu_ping", 8, "{:.3f}"), ("cpu_submit", 10, "{:.3f}"), ("cpu_explain", 11, "{:.3f}"), ("cpu_push", 8, "{:.2f}"),
    ("put50", 7, "{:.1f}"), ("submit50", 9, "{:.1f}"), ("submit99", 9, "{:.1f}"), ("ping50", 6, "{:.2f}"),
    ("push", 7, "{:.0f}"), ("explain50", 9, "{:.1f}"), ("explain99", 9, "{:.1f}"), ("reloads", 7, "{}"), ("drift", 5, "{}"), ("log", 4, "{}"),
]


def show(row):
    print(" ".join(form.format(row[name]).rjust(width) for name, width, form in COLUMNS), flush=True)


def settled(seconds):
    """Cancels and purges all jobs, and returns whether that succeeded."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        subprocess.run(["flux", "cancel", "--all", "--user=all", "--quiet"], stderr=subprocess.DEVNULL, check=False)
        time.sleep(1)
        if handle.rpc("job-manager.stats-get", {}).get()["active_jobs"] == 0:
            return True
    return False


prober = handle_of(USERS[3])
probe = texts_of(USERS[3])[3]
pusher = Changes(path, leaves)
standard = pusher.document("weighted-walk")
EVERY = max(1, int(minutes // 20))
actors, rows, failures, kinds, reloads = Actors(), [], [], defaultdict(int), 0
threading.Thread(target=purge, daemon=True).start()
threading.Thread(target=tidy, daemon=True).start()
handle.rpc("job-manager.jobtap", {"remove": "mf_priority.so"}).get()
empty = meter()[1]
handle.rpc("job-manager.jobtap", {"load": path}).get()
actors.start("changes", path, leaves)
while "ready" not in actors.last:
    time.sleep(0.1)
    if actors.dead():
        sys.exit("nobody is there to push")
is_ours = ask("check") is not None
actors.start("jobs", jobs / minutes / 60, live)
if is_ours:
    actors.start("guests")
print(f"{jobs} jobs in {minutes:.0f} minutes, {live} at a time, {leaves} associations")
print("MiB: resident, given out, of that to the job manager's thread, of that what the plugin gave back at its last reload")
print("cpu: ms of the job manager's thread for a job, all else that it does in that minute included; then the same for single acts while"
      f" everybody waits, every {EVERY} minutes, and how many jobs lived then; the others are ms by the clock; put50, ping50: a KVS"
      " commit, the shortest question")
print(" ".join(name.rjust(width) for name, width, _ in COLUMNS), flush=True)
began = time.monotonic()
while time.monotonic() - began < minutes * 60:
    cpu, count = used(), actors.last.get("accepted", 0)
    probes = probed(min(60, max(1, began + minutes * 60 - time.monotonic())))
    told, last = actors.taken()
    for act in told["act"]:
        kinds[act] += 1
    pushes = [seconds for act, seconds in zip(told["act"], told["seconds"]) if act in ("push_whole", "push_in_parts") and seconds]
    check, stats = ask("check"), ask("stats")
    while is_ours and (check is None or stats is None):
        time.sleep(0.1)
        check, stats = ask("check"), ask("stats")
    counted = handle.rpc("job-manager.stats-get", {}).get()
    log, given, new = complaints(), meter(), last.get("accepted", 0) - count
    reloads += len(told["own"])
    row = dict(
        minute=(time.monotonic() - began) / 60, jobs=last.get("accepted", 0), refused=last.get("refused", 0),
        alive=counted["active_jobs"], ended=counted["inactive_jobs"], held=stats["jobs"]["held"] if stats else 0,
        rss=memory() / MIB, broker=given[0], manager=given[1], own=last.get("own", float("nan")) / MIB,
        cpu=1000 * (used() - cpu) / new if new else float("nan"),
        put50=part(probes["put"], 50), submit50=part(probes["submit"], 50),
        ping50=part(probes["ping"], 50), submit99=part(probes["submit"], 99),
        push=1000 * statistics.median(pushes) if pushes else float("nan"),
        explain50=part(told["explain"], 50), explain99=part(told["explain"], 99), reloads=reloads,
        drift=len(check["drift"]) if check else 0, log=len(log),
    )
    row.update(alone() if len(rows) % EVERY == 0 else dict.fromkeys(("live", "cpu_ping", *JUDGED), float("nan")))
    rows.append(row)
    show(row)
    for line in log[:5]:
        print("    " + line, flush=True)
    if row["drift"]:
        failures.append(f"minute {row['minute']:.0f}: check is not clean: {json.dumps(check)[:500]}")
    if log:
        failures.append(f"minute {row['minute']:.0f}: {len(log)} lines of trouble in the log")
    if actors.dead():
        failures.append(f"minute {row['minute']:.0f}: ended early: {actors.dead()}")
        break
took = (time.monotonic() - began) / 3600
actors.stop()

print("\nwhat was done: " + ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds)) + f"; guests asked {actors.last.get('asked', 0)} times")
ended = settled(300)
if not ended:
    failures.append("jobs are left that do not end")
time.sleep(5)
while handle.rpc("job-manager.purge", dict(age_limit=-1.0, num_limit=0, batch=100, force=True)).get()["count"] > 0:
    pass
if is_ours:
    check = ask("check")
    print("all jobs ended: check " + json.dumps(check))
    if check["drift"] or (ended and check["jobs"]):
        failures.append("jobs are counted that have ended")
before = meter()
handle.rpc("job-manager.jobtap", {"remove": "mf_priority.so"}).get()
after = meter()
left = (after[1] - empty) * MIB / max(1, rows[-1]["jobs"])
print(f"the job manager had {empty:.2f} MiB before the first job, without the plugin: {left:.1f} bytes a job are left of all of them")
if after[1] - empty > 1 and left > BYTES_PER_JOB:
    failures.append(f"{left:.0f} bytes a job are left of those that have ended, and of the plugins")
print(f"without jobs: the plugin {before[1] - after[1]:.2f} MiB, the job manager without it {after[1]:.2f} MiB, the broker {after[0]:.1f} MiB")

warm = rows[max(1, len(rows) // 5):]
done = rows[-1]["jobs"]
print("refused: " + json.dumps(actors.last.get("why", {})))
if done == 0:
    sys.exit("no job was accepted")
print(f"{actors.last.get('canceled', 0)} were canceled as soon as they were accepted")
print(f"{done} jobs accepted in {60 * took:.1f} minutes, {done / took / 3600:.0f} a second")
for key, what in (
    ("rss", "resident memory of the broker"), ("broker", "given out in the broker"),
    ("manager", "given out to the job manager's thread"), ("own", "the plugin's own"),
):
    rate, half = slope([row for row in warm if row[key] == row[key]], key)
    if rate != rate:
        print(f"{what}: too few rows to tell")
        continue
    per_job = rate * MIB / (done / took)
    print(f"{what}: {rate:+.1f} +- {half:.1f} MiB an hour after a warm-up of {rows[len(rows) - len(warm) - 1]['minute']:.0f} minutes, {per_job:+.0f} bytes a job")
    # Of these four, only growth of the plugin's own memory is a failure. The broker's memory includes the KVS and other
    # modules of Flux. The job manager's memory depends on the number of live jobs, so only its size after the last job
    # is checked (see above).
    if key == "own" and (rate - half) * MIB / (done / took) > BYTES_PER_JOB:
        failures.append(f"{what} grows: {per_job:.0f} bytes a job")
slower = 1.0
for key in ("cpu", "cpu_ping", *JUDGED, "put50", "submit50", "submit99", "ping50", "push", "explain50", "explain99"):
    if not any(row[key] == row[key] for row in warm):
        continue
    first, last = quarters(warm, key)
    print(f"{key}: {first:.2f} in the first quarter, {last:.2f} in the last, {last / first:.2f} times")
    # On a busy machine, even a ping takes more processor time, because other processes use the caches. If a ping takes
    # 1.2 times as long as at first, the limit for the costs in JUDGED becomes 1.2 times as large. Costs that
    # are not in JUDGED have no limit, because they depend on the machine, the KVS and the number of jobs.
    if key == "cpu_ping":
        slower = max(1.0, last / first)
    # With fewer measurements, the medians of the first and the last quarter vary too much.
    measured = sum(row[key] == row[key] for row in warm)
    if key in JUDGED and measured >= 12 and last > SLOWER * slower * first:
        failures.append(f"{key} is {last / first:.2f} times what it was")
print("\n".join(["verdict: FAILED", *failures]) if failures else "verdict: flat" if len(warm) >= 8 else "verdict: nothing failed, too short to tell more")
sys.exit(bool(failures))
