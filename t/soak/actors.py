# SPDX-License-Identifier: LGPL-3.0-only
"""The actors of a soak, each in a process of its own, which writes a line of JSON for each action.

jobs     submits jobs
changes  pushes, changes limits and the configuration, updates and cancels jobs, reloads the plugin
guests   send requests
"""
import errno
import json
import os
import random
import sys
import time
from collections import Counter, deque

import flux
from bench import association, queue
from flux import job
from flux.security import SecurityContext

SERVICE = "job-manager.mf_priority."
USERS = list(range(5001, 5031))
BANKS = {"root": "", "east": "root", "west": "root", "chem": "east", "phys": "east", "bio": "west", "geo": "west"}
LEAF_BANKS = ["chem", "phys", "bio", "geo"]
QUEUES = ["batch", "debug"]
# While this file exists, all processes of the soak test pause before their next action.
PAUSE = os.environ["SOAK_PAUSE"]
# The maximum number of submissions without an answer.
WINDOW = 200
# Seconds between two batches of submissions. Scripts of users also submit many jobs at once. With steady submissions, a directory of the KVS
# would get a new entry each quarter of a second, and each commit would write the whole directory.
SWEEP = 4


def bank_of(uid):
    return LEAF_BANKS[uid % len(LEAF_BANKS)]


def handle_of(uid, rolemask=None):
    """Returns a handle of this user, by default with the role of the owner, which unsigned submissions need."""
    claims = {"FLUX_HANDLE_USERID": str(uid)} | ({"FLUX_HANDLE_ROLEMASK": rolemask} if rolemask else {})
    os.environ.update(claims)
    own = flux.Flux()
    for claim in claims:
        del os.environ[claim]
    return own


def tell(**what):
    print(json.dumps(what), flush=True)


def paused():
    """Reports a pause and waits while the file PAUSE exists, and returns whether it did."""
    if not os.path.exists(PAUSE):
        return False
    tell(paused=sys.argv[1])
    while os.path.exists(PAUSE):
        time.sleep(0.05)
    return True


def texts_of(uid):
    """Returns signed jobspecs: one core up to two nodes, mostly half a second to four, a third very short, in both queues, with or
    without a bank."""
    context, texts = SecurityContext(), []
    for number in range(12):
        size = {} if number % 4 else {"num_nodes": 1 + number % 8 // 4, "cores_per_task": 2, "num_tasks": 2}
        spec = job.JobspecV1.from_command(["true"], **size)
        spec.duration = 60
        spec.setattr("system.exec.test.run_duration", f"{0.5 + number % 5 * 0.8 if number % 3 else 0.01}s")
        spec.setattr("system.queue", QUEUES[number % 5 == 0])
        if number % 3 == 0:
            spec.setattr("system.bank", bank_of(uid))
        texts.append(context.sign_wrap_as(uid, spec.dumps(), mech_type="none"))
    return texts


def active(owner):
    return owner.rpc("job-manager.stats-get", {}).get()["active_jobs"]


def submit(rate, most):
    """Submits jobs in sweeps at a fixed rate, up to `most` live jobs. One in a hundred is urgent or held, one in four is cancelled at once."""
    chance, owner = random.Random(1), flux.Flux()
    users = [(handle_of(uid), texts_of(uid)) for uid in USERS]
    why, under_way, cancels = Counter(), deque(), deque()
    began, accepted, refused, canceled, count, last = time.monotonic(), 0, 0, 0, 0, time.monotonic()

    def answered(most_open):
        """Waits for the oldest answers until at most this many are missing."""
        nonlocal accepted, refused, canceled
        while len(under_way) > most_open:
            try:
                one = under_way.popleft().get_id()
                accepted += 1
                if chance.random() < 0.25:
                    canceled += 1
                    cancels.append(owner.rpc("job-manager.raise", dict(id=one, severity=0, type="cancel")))
            except OSError as exc:
                refused += 1
                # Limits refuse some submissions, so count the refusals by reason.
                why[(exc.strerror or str(exc))[:60].rstrip("0123456789")] += 1
        while len(cancels) > most_open // 4:
            try:
                cancels.popleft().get()
            except OSError as exc:
                # The job may have ended.
                if exc.errno not in (errno.ENOENT, errno.EINVAL):
                    raise

    while True:
        if os.path.exists(PAUSE):
            answered(0)
            paused()
        due = int((time.monotonic() - began) * rate) - count
        room = most - active(owner)
        if due > rate * 120:
            # If the machine is too slow for the rate, skip the missed submissions.
            began += due / rate - 1
        batch = min(due, room)
        if batch < min(rate * SWEEP, most / 4):
            batch = 0
        for _ in range(batch):
            own, texts = chance.choice(users)
            urgency = chance.choice((0, 31, 20)) if chance.random() < 0.01 else 16
            under_way.append(job.submit_async(own, chance.choice(texts), urgency=urgency, pre_signed=True))
            answered(WINDOW)
        answered(0)
        count += batch
        if time.monotonic() - last > 1:
            last = time.monotonic()
            tell(accepted=accepted, refused=refused, canceled=canceled, why=why)
        time.sleep(0.05 if batch == 0 else 0.01)


class Changes:
    """The actions of an administrator and of impatient users, one after another."""

    def __init__(self, path, leaves):
        self.path, self.leaves, self.number = path, leaves, 0
        self.owner, self.chance = flux.Flux(), random.Random(2)
        self.is_ours = True

    def call(self, method, payload=None, service=SERVICE):
        text = None if payload is None else json.dumps(payload)
        answer = self.owner.rpc(service + method, text).get_str()
        return json.loads(answer) if answer else {}

    def records(self):
        """Returns the users with limits that change from push to push, and many other users without jobs."""
        records = []
        for at, uid in enumerate(USERS):
            limits = {}
            if at % 5 == 0:
                limits = {"max_running_jobs": self.chance.choice((5, 20, 80))}
            elif at % 5 == 1:
                limits = {"max_nodes": self.chance.choice((4, 16, 64))}
            elif at % 5 == 2:
                limits = {"max_sched_jobs": self.chance.choice((10, 50, 200))}
            records.append(association(uid, bank_of(uid), max_active_jobs=400, queues=",".join(QUEUES), **limits))
        records.append(association(os.getuid(), "chem", queues=",".join(QUEUES)))
        records += [association(100000 + n, LEAF_BANKS[n % 4]) for n in range(self.leaves)]
        for at, record in enumerate(records):
            record.update(username=f"u{record['userid']}", shares=1 + at % 7, usage=1e4 * (at * 7919 % 1000), counted_until=0)
        return records

    def document(self, policy=None):
        banks = [dict(bank=name, parent=parent, priority=0, shares=1, active=1) for name, parent in BANKS.items()]
        policy = policy or self.chance.choice(("weighted-walk", "fair-tree", "classic"))
        tree = dict(policy=policy, at=time.time(), half_life=604800, node_weight=1, core_weight=0, gpu_weight=0)
        queues = [queue("batch"), queue("debug", max_sched_jobs=self.chance.choice((200, 1000)))]
        return dict(associations=self.records(), queues=queues, projects=[{"project": "*"}], banks=banks,
                    priority_factors=[{"factor": "fairshare", "weight": 100000}], config={}, tree=tree)

    def push_whole(self):
        self.call("policy_update", self.document())

    def push_in_parts(self):
        document = self.document()
        records = document.pop("associations")
        number = self.call("policy_begin", {"keep_config": True})["push"]
        self.call("policy_part", dict(document, push=number))
        for at in range(0, len(records), 500):
            self.call("policy_part", {"push": number, "associations": records[at : at + 500]})
        self.call("policy_commit", {"push": number})

    def push_half(self):
        """Begins a push and abandons it."""
        number = self.call("policy_begin", {"expires": 5})["push"]
        self.call("policy_part", {"push": number, "associations": self.records()[:100]})

    def limits(self):
        some = [record for record in self.records()[: len(USERS)] if self.chance.random() < 0.3]
        self.call("rec_update", {"data": some})
        self.call("reprioritize")

    def configure(self):
        conf = self.owner.rpc("config.get").get()
        conf["fairshare"] = dict(
            refresh=self.chance.choice(("2s", "5s", "30s")),
            weights=dict(age=self.chance.choice((0, 1000)), size=self.chance.choice((0, 100))),
            annotate=self.chance.random() < 0.5,
        )
        conf["fairshare"]["running-limits"] = self.chance.choice(("strict", "upstream"))
        self.owner.rpc("config.load", conf).get()

    def some_jobs(self, count):
        attrs = ["userid", "state"]
        jobs = self.owner.rpc("job-manager.list", {"max_entries": 500, "attrs": attrs}).get()["jobs"]
        return [one["id"] for one in self.chance.sample(jobs, min(count, len(jobs)))]

    def each(self, topic, payloads):
        """Ignores errors of jobs that have ended meanwhile."""
        for future in [self.owner.rpc(topic, payload) for payload in payloads]:
            try:
                future.get()
            except OSError as exc:
                if exc.errno not in (errno.ENOENT, errno.EINVAL, errno.EPERM, errno.EROFS):
                    raise

    def cancel(self):
        self.each("job-manager.raise", [dict(id=one, severity=0, type="cancel") for one in self.some_jobs(50)])

    def urgency(self):
        self.each("job-manager.urgency", [dict(id=one, urgency=self.chance.choice((0, 10, 16, 31))) for one in self.some_jobs(50)])

    def unhold(self):
        """Raises urgencies of 0 again, so that no job waits forever."""
        jobs = self.owner.rpc("job-manager.list", {"max_entries": 0, "attrs": ["urgency"]}).get()["jobs"]
        self.each("job-manager.urgency", [dict(id=one["id"], urgency=16) for one in jobs if one["urgency"] == 0])

    def update(self):
        for key, value in (("duration", 90), ("queue", self.chance.choice(QUEUES)), ("bank", self.chance.choice(LEAF_BANKS))):
            key = "attributes.system." + key
            self.each("job-manager.update", [dict(id=one, updates={key: value}) for one in self.some_jobs(20)])

    def reload(self):
        """Measures the memory that the removal of the plugin frees. All four requests are sent before the first answer."""
        meter, jobtap = "job-manager.meter.memory", "job-manager.jobtap"
        requests = [self.owner.rpc(meter, {}), self.owner.rpc(jobtap, {"remove": "mf_priority.so"}), self.owner.rpc(meter, {}),
                    self.owner.rpc(jobtap, {"load": self.path})]
        before, _, after, _ = [future.get() for future in requests]
        tell(own=before["job_manager"] - after["job_manager"])

    def run(self):
        try:
            self.push_whole()
        except OSError as exc:
            if exc.errno != errno.ENOSYS:
                raise
            self.is_ours = False
        tell(ready=True)
        ours = [self.push_whole, self.limits, self.push_in_parts, self.push_half]
        always = [self.configure, self.cancel, self.urgency, self.unhold, self.update]
        acts, last = always + (ours if self.is_ours else []), time.monotonic() - 150
        while True:
            paused()
            act = self.chance.choice(acts)
            if time.monotonic() - last > 180:
                # Reload the plugin every three minutes. The plugin then restores the snapshot.
                last, act = time.monotonic(), self.reload
            start = time.monotonic()
            act()
            tell(act=act.__name__, seconds=time.monotonic() - start)
            time.sleep(2)
            if act == self.reload:
                time.sleep(3)
                if self.is_ours:
                    self.push_whole()
                    tell(act="push_whole", seconds=0)


def ask():
    """Guests that send permitted requests, and sometimes forbidden ones."""
    chance, count = random.Random(3), 0
    guests = [handle_of(uid, "0x2") for uid in USERS[:5]]
    while True:
        paused()
        own = chance.choice(guests)
        method = chance.choice(("standing", "jobs", "jobs", "stats"))
        try:
            answer = own.rpc(SERVICE + method, json.dumps({"limit": 20} if method == "jobs" else {})).get_str()
            if method == "stats":
                raise SystemExit("a guest was answered by stats")
            for one in json.loads(answer).get("jobs", [])[:3]:
                start = time.monotonic()
                own.rpc(SERVICE + "explain", json.dumps({"jobs": [one["id"]]})).get_str()
                tell(explain=time.monotonic() - start)
        except OSError as exc:
            # The plugin answers ENOSYS while it is reloaded, and EAGAIN while it has no data.
            wanted = [errno.EPERM, errno.ENOSYS] if method == "stats" else [errno.ENOSYS, errno.EAGAIN, errno.ENOENT]
            if exc.errno not in wanted:
                raise
        count += 1
        if count % 20 == 0:
            tell(asked=count)
        time.sleep(0.2)


if __name__ == "__main__":
    if sys.argv[1] == "jobs":
        submit(float(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "changes":
        Changes(sys.argv[2], int(sys.argv[3])).run()
    else:
        ask()
