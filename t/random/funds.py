# SPDX-License-Identifier: LGPL-3.0-only
"""Random budgets, and random rules of queues: charge factors, exemptions and largest priorities."""
import copy

from caps import PARENTS

TARGETS = (("bank", "A"), ("bank", "S"), ("bank", "root"), ("bank", "B"), ("user", "5001"), ("association", "5001/A"), ("association", "5002/A"))
TREE = {"policy": "fair-tree", "half_life": 600, "node_weight": 1, "core_weight": 0, "gpu_weight": 0}
LIMITS = (600, 600, 1200, 1800, 3600)  # seconds; no job reaches its time limit in a history
HOUR = 3600000


class Funds:
    """The budgets of a site with their deposits, and the rules of its queues."""

    def __init__(self, rng, can):
        self.rng = rng
        self.has_budgets = "budgets" in can and rng.random() < 0.7
        self.has_rules = "exempt" in can and rng.random() < 0.6
        self.has_charges = self.has_budgets and rng.random() < 0.6
        self.has_clock = self.has_budgets and "clock" in can
        self.number, self.rules, self.mode, self.has_largest = 0, {}, "hold", False
        self.budgets = [self.make_budget() for _ in range(rng.randint(1, 3))] if self.has_budgets else []
        self.drop_doubles()

    def is_on(self):
        """Returns whether the history has budgets or rules of queues."""
        return self.has_budgets or self.has_rules

    def make_budget(self):
        """Returns a budget with its windows, in seconds from the push that first has it, and a deposit for each window."""
        rng = self.rng
        self.number += 1
        (scope, name), unit = rng.choice(TARGETS), rng.choice(["node-hours", "node-hours", "core-hours", "gpu-hours"])
        windows = rng.choice([[[-100, 86400]], [[-100, 86400]], [[-100, 4]], [[-100, 3], [6, 86400]], [[3, 86400]], [[-100, 5], [5, 10]]])
        return {"id": self.number, "scope": scope, "name": name, "unit": unit, "windows": windows,
                "deposited": [self.pick_deposit(unit) for _ in windows]}

    def pick_deposit(self, unit):
        """Returns a deposit for a few jobs."""
        nodes = self.rng.choice([600, 1200, 1300, 2400, 3601, 5000]) * 1000
        return nodes * (4 if unit == "core-hours" else 1)

    def drop_doubles(self):
        self.budgets = list({(one["scope"], one["name"], one["unit"]): one for one in self.budgets}.values())

    def change_budgets(self):
        """Makes a deposit or a correction, or replaces, drops or adds a budget."""
        rng = self.rng
        self.budgets = copy.deepcopy(self.budgets)
        what = rng.choice(["deposit"] * 5 + ["correct", "replace", "replace", "drop", "add", "add"]) if self.budgets else "add"
        at = rng.randrange(len(self.budgets)) if self.budgets else 0
        if what in ("deposit", "correct"):
            one = self.budgets[at]
            index = rng.randrange(len(one["windows"]))
            one["deposited"][index] += rng.choice([1, 600000, 1200000, 2400000]) * (1 if what == "deposit" else -1)
        elif what == "drop":
            del self.budgets[at]
        else:
            if what == "replace":
                del self.budgets[at]
            self.budgets = (self.budgets + [self.make_budget()])[-4:]
        self.drop_doubles()

    def change_rules(self):
        """Changes the charge factor, the exemptions or the largest priority of a queue, or what happens to jobs that do not fit."""
        rng = self.rng
        queue = rng.choice(["q1", "q1", "q2", "q2", "q3"])
        rules = dict(self.rules.get(queue, {}))
        kinds = ["exempt", "max-priority"] * self.has_rules + ["charge", "charge", "budgets"] * self.has_charges
        what = rng.choice(kinds or ["budgets"])
        if what == "budgets":
            self.mode = rng.choice(["hold", "hold", "reject", "warn"])
        elif rng.random() < 0.3:
            rules.pop(what, None)
        elif what == "exempt":
            rules[what] = rng.choice([["association"], ["bank"], ["user"], ["association", "bank"], ["association", "bank", "user"]])
        else:
            rules[what] = rng.choice([1, 100, 20000, 4294967294] if what == "max-priority" else [0, 0.5, 0.1, 1, 2, 2.5])
        self.rules = {**self.rules, queue: rules}

    def add_rules(self, table):
        """Returns a table [fairshare] with the rules of queues."""
        table = copy.deepcopy(table)
        for queue, rules in self.rules.items():
            if rules:
                table.setdefault("queues", {}).setdefault(queue, {}).update(copy.deepcopy(rules))
        if self.mode != "hold":
            table["budgets"] = self.mode
        return table

    def add_budgets(self, document):
        """Returns a whole policy with the budgets, and with the tree that they need. The player adds what the database would know."""
        if not self.has_budgets:
            return document
        priorities = {record["bank"]: record["priority"] for record in document["banks"]}
        banks = [{"bank": bank, "priority": priorities.get(bank, 0.0), "parent": parent, "shares": 1, "active": 1}
                 for bank, parent in PARENTS.items()]
        associations = [dict(one, username=f"u{one['userid']}", shares=1, usage=0) for one in document["associations"]]
        return dict(document, banks=banks, associations=associations, budgets=copy.deepcopy(self.budgets), tree=dict(TREE),
                    lag=self.rng.choice([0, 0, 1, 3]))

    def pick_gpus(self):
        """Returns the number of GPUs that a job requests on each node."""
        return self.rng.choice([0, 1, 1, 2]) if self.has_budgets else 0

    def pick_limit(self):
        """Returns the time limit of a job in seconds, 0 for none, or None for a job of a history without budgets."""
        if not self.has_budgets:
            return None
        return 0 if self.rng.random() < 0.02 else self.rng.choice(LIMITS)

    def pick_wait(self):
        """Returns the seconds by which the clock of the embedded job manager advances: beyond the next window, or beyond the time limits of jobs."""
        return self.rng.choice([0.7, 1, 2, 3, 3, 4, 60, 300, 600, 1500])

    def pick_run(self):
        """Returns the run time of a job that ends by itself, or None. In real Flux, `Maker` picks these jobs."""
        return self.rng.choice([None, None, None, "0.1s", "2s", "450s", "600.25s", "1000s"]) if self.has_clock else None
