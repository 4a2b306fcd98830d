# SPDX-License-Identifier: LGPL-3.0-only
"""Makes random histories: a site that changes, jobs that are submitted, change and end, and plugins that are loaded and removed.

A history is {"queues", "virtual": the parents of virtual queues, "document": the document at load, "steps"}. Any steps can be cut out of it: steps name jobs by label, and a step
whose job does not exist does nothing.
"""
import copy
import random

from caps import Caps
from funds import Funds

UNLIMITED = 2147483647
USERS = ((5001, "A"), (5001, "B"), (5002, "A"), (5003, "A"))
FEW = (1, 1, 2, 2, 3, UNLIMITED)


def limits(rng, some):
    """Returns random limits, each set with the probability `some`."""

    def maybe(values):
        return rng.choice(values) if rng.random() < some else UNLIMITED

    return maybe


class Site:
    """The changing accounting data of a site."""

    def __init__(self, rng):
        self.rng = rng
        self.associations = {key: self.association(key) for key in USERS}
        self.queues = {name: self.queue(name) for name in ("q1", "q2")}
        self.banks = {"A": 0.0, "B": 2.0}
        self.weights = {"fairshare": 100000, "queue": 10000, "bank": 100, "urgency": 1000}
        self.config = {"zero_score": "hold", "deny_unknown_queues": False}

    def association(self, key):
        rng, maybe = self.rng, limits(self.rng, 0.35)
        record = {
            "userid": key[0], "bank": key[1], "queues": rng.choice(["q1,q2", "q1,q2", "q1,q2", "q1"]),
            "fairshare": rng.choice([0.5, 0.25, 1.0, 0.75, 0]), "max_running_jobs": maybe(FEW),
            "max_sched_jobs": maybe(FEW), "max_nodes": maybe((3, 4, 6)), "max_cores": maybe((8, 12, 16)),
            "max_active_jobs": rng.choice([0] * 5 + [6, 9]), "projects": rng.choice(["*", "*", "*,p1"]),
            "def_project": rng.choice(["*", "*", "*", "p2"]),
        }
        return {k: v for k, v in record.items() if v != UNLIMITED}

    def queue(self, name):
        maybe = limits(self.rng, 0.3)
        record = {
            "queue": name, "priority": self.rng.choice([0, 0, 1, 5, -3]), "max_running_jobs": maybe(FEW),
            "max_nodes_per_assoc": maybe((3, 3, 4, 6)), "max_sched_jobs": maybe(FEW),
            "max_sched_nodes_per_assoc": maybe((1, 2, 3, 4)), "max_sched_cores_per_assoc": maybe((4, 8, 12)),
        }
        return {k: v for k, v in record.items() if v != UNLIMITED}

    def make_policy(self):
        return {
            "associations": list(self.associations.values()), "queues": list(self.queues.values()),
            "projects": [{"project": name} for name in ("*", "p1", "p2")], "banks": self.bank_records(),
            "priority_factors": self.factors(), "config": dict(self.config),
        }

    def bank_records(self):
        return [{"bank": bank, "priority": priority} for bank, priority in self.banks.items()]

    def factors(self):
        return [{"factor": name, "weight": weight} for name, weight in self.weights.items()]

    def change(self):
        """Makes one change and returns its records."""
        rng = self.rng
        what = rng.choice(["associations"] * 5 + ["queues"] * 4 + ["banks", "factors", "config", "all"])
        if what == "associations":
            key = rng.choice(USERS)
            self.associations[key] = self.association(key)
            return {"associations": [self.associations[key]]}
        if what == "queues":
            name = rng.choice(["q1", "q2", "q3"])
            if name in self.queues and rng.random() < 0.3 and len(self.queues) > 1:
                del self.queues[name]
            else:
                self.queues[name] = self.queue(name)
            return {"queues": list(self.queues.values())}
        if what == "banks":
            self.banks[rng.choice("AB")] = rng.choice([0.0, 1.0, -2.0, 3.5])
            return {"banks": self.bank_records()}
        if what == "factors":
            name = rng.choice(sorted(self.weights))
            self.weights[name] = rng.choice([0, 1000, 10000, 100000])
            return {"priority_factors": self.factors()}
        if what == "config":
            self.config["zero_score"] = rng.choice(["hold", "floor"])
            self.config["deny_unknown_queues"] = rng.random() < 0.2
            return {"config": dict(self.config)}
        return self.make_policy()


class Maker:
    """Makes the steps of a history, one after the other."""

    def __init__(self, rng, can, caps, funds, seed):
        self.rng, self.can, self.caps, self.funds = rng, can, caps, funds
        self.removing, self.moving = random.Random(f"removed {seed}"), random.Random(f"virtual {seed}")
        self.virtual = pick_virtual_queues(self.moving) if "virtual" in can else {}
        self.removed = set()  # associations that pushed policies lack
        self.site = Site(rng)
        self.jobs, self.kept, self.late, self.opening = [], [], 0, []
        if caps.has_scopes and (chance := caps.rng.random()) < 0.4:
            is_siege = "siege" in can and chance < 0.1
            self.opening = caps.begin_siege(self.site, 1) if is_siege else caps.begin_contest(self.site, 1)
            self.jobs = [(step["submit"], step["user"]) for step in self.opening if "submit" in step]
        self.is_loaded, self.has_data, self.is_started, self.has_conf = True, True, True, True

    def submission(self):
        rng = self.rng
        uid, bank = rng.choice(USERS)
        step = {"submit": f"j{len(self.jobs) + 1}", "user": uid, "nodes": rng.choice([1, 1, 1, 2, 3])}
        queue = rng.choice(["q1", "q1", "q1", "q2", "q2", "q3"] + ([] if "begin" in self.can else [None]))
        if queue:
            step["queue"] = queue
        if bank == "B" or rng.random() < 0.2:
            step["bank"] = bank
        if rng.random() < (0.02 if self.has_data else 0.15):
            step["bank"] = "Z"
        if rng.random() < 0.1:
            step["project"] = rng.choice(["*", "p1", "p2"])
        if rng.random() < 0.25:
            step["urgency"] = rng.choice([0, 0, 0, 10, 20, 31])
        mine = [job for job in self.jobs[-8:] if job[1] == uid]
        if mine and rng.random() < 0.3:
            step["after"] = rng.choice(mine)[0]
        chance = rng.random()
        if "keep" in self.can and chance < 0.12:
            name = f"k{len(self.jobs)}"
            key = rng.choice(["keep", "keep_silently"])
            step[key] = name
            self.kept.append((step["submit"], ("keep=" if key == "keep" else "silent=") + name))
        elif "begin" in self.can and chance < 0.15:
            step["begin"] = rng.choice([0.5, 3600])
        elif "run" in self.can and chance < 0.2:
            step["run"] = "0.1s"
        self.jobs.append((step["submit"], uid))
        if gpus := self.caps.pick_gpus() or self.funds.pick_gpus():
            step["gpus"] = gpus
        if (limit := self.funds.pick_limit()) is not None:
            step["limit"] = limit
        if run := self.funds.pick_run():
            step["run"] = run
        return step

    def pick_job(self):
        return self.rng.choice(self.jobs[-14:])[0] if self.jobs else "none"

    def step(self):
        rng = self.rng
        if self.opening:
            return self.opening.pop(0)
        kinds = [
            ("submit", 30), ("batch", 6), ("cancel", 22), ("urgency", 7), ("update", 8), ("push", 7), ("data", 3),
            ("policy", 2), ("reprioritize", 2), ("keep", 5), ("drop", 8), ("queues", 6), ("reload", 2.5),
            ("restart", 1.5), ("remove", 0.8), ("rush", 1), ("module", 1),
        ]
        if self.is_loaded and self.caps.is_on() and self.caps.rng.random() < 0.05:
            return self.a_cap()
        if self.is_loaded and self.funds.is_on() and self.funds.rng.random() < 0.08:
            return self.a_fund()
        if self.funds.has_clock and self.funds.rng.random() < 0.12:
            return {"wait": self.funds.pick_wait()}
        kinds = [(kind, weight) for kind, weight in kinds if kind not in OPTIONAL or kind in self.can]
        if not self.is_loaded:
            return self.loading("load")
        if not self.has_data and rng.random() < 0.3:
            self.has_data = True
            return {"push": self.site.make_policy()}
        kind = rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        return getattr(self, "a_" + kind)()

    def a_submit(self):
        return self.submission()

    def a_batch(self):
        return {"batch": [self.submission() for _ in range(self.rng.randint(2, 5))]}

    def a_cancel(self):
        return {"cancel": self.pick_job()}

    def a_urgency(self):
        return {"urgency": self.pick_job(), "value": self.rng.choice([0, 0, 16, 16, 16, 8, 24, 31])}

    def a_update(self):
        if self.rng.random() < 0.7:
            return {"update": self.pick_job(), "queue": self.rng.choice(["q1", "q2", "q3"])}
        return {"update": self.pick_job(), "bank": self.rng.choice("AB")}

    def a_push(self):
        return {"push": self.make_change()}

    def a_data(self):
        return {"data": self.make_change()}

    def make_change(self):
        change = self.site.change()
        return copy.deepcopy(change if self.has_data else self.make_policy_step())

    def make_policy_step(self):
        self.has_data = True
        return self.site.make_policy()

    def a_policy(self):
        self.site.change()
        if "removed" in self.can:
            self.removed = set(self.removing.sample(USERS, self.removing.choice([0, 0, 0, 1, 2])))
        return self.policy("policy")

    def policy(self, key):
        self.has_data = True
        policy = self.make_policy()
        policy["associations"] = [one for one in policy["associations"] if (one["userid"], one["bank"]) not in self.removed]
        return {key: policy}

    def make_policy(self):
        """A step that pushes a whole policy, with limits over scopes and budgets."""
        return self.funds.add_budgets(self.caps.added(copy.deepcopy(self.site.make_policy())))

    def a_cap(self):
        """A step that pushes other limits over scopes or configures another table [fairshare]."""
        if not self.caps.has_scopes or self.caps.rng.random() < 0.4:
            return self.config(self.caps.change_table())
        self.caps.change_pushed()
        return self.policy(self.caps.rng.choice(["policy", "parts"]))

    def a_fund(self):
        """A step that pushes other budgets or configures other rules of queues."""
        rng = self.funds.rng
        if not self.funds.has_budgets or (self.funds.has_rules or self.funds.has_charges) and rng.random() < 0.5:
            self.funds.change_rules()
            return self.config(self.caps.table)
        self.funds.change_budgets()
        return self.policy(rng.choice(["policy", "parts"]))

    def config(self, table):
        """A step that configures the table [fairshare], and may make other queues virtual."""
        step = {"config": self.funds.add_rules(table)}
        has_largest = any("max-priority" in rules for rules in self.funds.rules.values())
        if {"virtual", "parents"} <= self.can and not self.funds.has_largest and not has_largest and self.moving.random() < 0.4:
            step["virtual"] = pick_virtual_queues(self.moving)
        self.funds.has_largest = has_largest
        return step

    def a_reprioritize(self):
        return {"reprioritize": True}

    def a_keep(self):
        self.late += 1
        job, name = self.pick_job(), f"late={self.late}"
        self.kept.append((job, name))
        return {"add": job, "name": name}

    def a_drop(self):
        if not self.kept:
            return {"reprioritize": True}
        job, name = self.kept.pop(self.rng.randrange(len(self.kept)))
        return {"drop": job, "name": name}

    def a_queues(self):
        self.is_started = not self.is_started
        return {"start" if self.is_started else "stop": True}

    def loading(self, key):
        self.is_loaded = True
        self.has_data = self.rng.random() < 0.7 or "nodata" not in self.can
        return {key: self.make_policy() if self.has_data else None}

    def a_reload(self):
        return self.loading("reload")

    def a_restart(self):
        step = self.loading("restart")
        self.has_conf = self.has_data
        return step

    def a_module(self):
        """A step that restarts the job manager with the configuration of the broker."""
        self.has_data = self.has_conf
        return {"module": True}

    def a_rush(self):
        """A step that loads the plugin without data and pushes before the plugin can read eventlogs."""
        self.has_data = True
        return {"rush": copy.deepcopy(self.site.make_policy())}

    def a_remove(self):
        self.is_loaded = False
        return {"remove": True}


OPTIONAL = {"keep", "drop", "queues", "policy", "rush", "module", "nodata"}
# The kinds of steps that use a separate random number generator. Without these kinds, the other steps of a history stay the same.
CAPS = {"scopes", "strict", "exempt", "virtual", "removed"}
FLUX = OPTIONAL | {"begin", "run", "budgets"} | CAPS
EMBEDDED = {"keep", "drop", "policy", "nodata", "siege", "clock", "budgets", "parents"} | CAPS


def make(seed, steps, can=FLUX):
    """Returns the history of a seed; equal seeds and equal `can` give equal histories."""
    caps, funds = Caps(random.Random(f"caps {seed}"), can), Funds(random.Random(f"funds {seed}"), can)
    maker = Maker(random.Random(seed), can, caps, funds, seed)
    document = maker.make_policy()
    # The embedded job manager cannot stop queues. Jobs wait in SCHED because the cluster is small.
    return {"seed": seed, "queues": ["q1", "q2", "q3"], "nodes": maker.rng.choice([3, 5, 8, 40]), "document": document,
            "virtual": maker.virtual,
            "steps": [maker.step() for _ in range(steps)]}


def pick_virtual_queues(rng):
    """Returns the parent of each virtual queue."""
    return rng.choice([{}, {}, {"q2": "q1"}, {"q1": "q2"}, {"q3": "q1"}, {"q2": "q1", "q3": "q1"}])
