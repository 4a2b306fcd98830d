# SPDX-License-Identifier: LGPL-3.0-only
"""Random limits over scopes and random strict limits: the parts of a site that flux-accounting's data do not have."""
import copy

from scopes import AMOUNTS, REJECTING

PARENTS = {"A": "S", "B": "S", "S": "root", "root": ""}
TARGETS = (
    ("bank", "*"), ("bank", "A"), ("bank", "B"), ("bank", "S"), ("bank", "S"), ("bank", "root"), ("user", "*"),
    ("user", "5001"), ("queue", "q1"), ("queue", "*"), ("association", "*"), ("association", "5001/A"), ("association", "5002/A"),
)
# Amounts that an association record of flux-accounting can limit.
IN_RECORDS = ("run-jobs", "run-nodes", "run-cores", "sched-jobs", "active-jobs")
SIZES = {"jobs": (0, 1, 1, 2, 2, 3, 4), "nodes": (1, 2, 3, 4, 6), "cores": (4, 8, 12, 16), "gpus": (0, 1, 2, 3, 4),
         "active-jobs": (5, 8, 12), "job-nodes": (2, 3, 4)}


class Caps:
    """The pushed limits, and the table [fairshare] of Flux's configuration."""

    def __init__(self, rng, can):
        self.rng = rng
        self.has_scopes, self.has_strict = "scopes" in can and rng.random() < 0.8, "strict" in can and rng.random() < 0.6
        self.limits = [self.make_shared_limit()] + [self.limit() for _ in range(rng.randint(0, 2))] if self.has_scopes else []
        self.table = {}

    def is_on(self):
        """Returns whether the history has such limits or tables."""
        return self.has_scopes or self.has_strict

    def make_shared_limit(self):
        """Returns a limit that several associations share."""
        rng = self.rng
        amount, caps = rng.choice([("run-sched-jobs", (2, 3, 5)), ("sched-jobs", (1, 2)), ("run-sched-nodes", (4, 6, 8)),
                                   ("run-jobs", (2, 3)), ("run-sched-gpus", (2, 4))])
        return {"scope": "bank", "name": rng.choice(["S", "S", "root", "A"]), amount: rng.choice(caps)}

    def limit(self):
        """Returns a record of one or two limits."""
        rng = self.rng
        scope, name = rng.choice(TARGETS)
        record = {"scope": scope, "name": name}
        if scope != "queue" and rng.random() < 0.3:
            record["queue"] = rng.choice(["q1", "q1", "q2"])
        if rng.random() < 0.2:
            record["counts"] = rng.choice(["given", "asked"])
        # Leave out the amounts in IN_RECORDS for an association: its record can already limit these amounts.
        amounts = [a for a in AMOUNTS + REJECTING if scope != "association" or "queue" in record or a not in IN_RECORDS]
        for amount in rng.sample(amounts, rng.choice([1, 1, 1, 2])):
            record[amount] = rng.choice(SIZES.get(amount) or SIZES[amount.rsplit("-", 1)[1]])
        return record

    def change(self, limits):
        """Raises, lowers, moves, drops or adds one cap."""
        rng, limits = self.rng, copy.deepcopy(limits)
        if rng.random() < 0.3:
            return [self.make_shared_limit()] + limits[1:]
        what = rng.choice(["size", "size", "size", "move", "drop", "add", "add"] if limits else ["add"])
        at = rng.randrange(len(limits)) if limits else 0
        if what == "size":
            amount = rng.choice([key for key in limits[at] if key in AMOUNTS + REJECTING])
            limits[at][amount] = max(0, limits[at][amount] + rng.choice([-2, -1, 1, 2, 4]))
        elif what == "move":
            fresh = self.limit()
            limits[at] = fresh
        elif what == "drop":
            del limits[at]
        else:
            limits = (limits + [self.limit()])[-4:]
        return limits

    def change_pushed(self):
        self.limits = self.change(self.limits)

    def change_table(self):
        """Makes another table [fairshare]."""
        rng, table = self.rng, dict(self.table)
        if self.has_scopes and (not self.has_strict or rng.random() < 0.3):
            table["limits"] = self.change(table.get("limits", []))[-2:]
        else:
            table.pop("running-limits", None)
            table.pop("queues", None)
            if rng.random() < 0.6:
                table["running-limits"] = rng.choice(["strict", "strict", "upstream"])
            if rng.random() < 0.4:
                rules = {"running-limits": rng.choice(["strict", "upstream"])}
                table["queues"] = {rng.choice(["q1", "q1", "q2"]): rules}
        self.table = table
        return copy.deepcopy(table)

    def added(self, document):
        """Returns a whole policy with the limits, and with the parents of the banks."""
        if not self.has_scopes:
            return document
        priorities = {record["bank"]: record["priority"] for record in document["banks"]}
        banks = [{"bank": bank, "priority": priorities.get(bank, 0.0), "parent": parent, "shares": 1, "active": 1}
                 for bank, parent in PARENTS.items()]
        return dict(document, banks=banks, limits=copy.deepcopy(self.limits))

    def begin_siege(self, site, number):
        """Returns first steps in which a job of one bank requests all resources, and others request few again and again. Labels of jobs
        are numbered from `number`."""
        steps, small = [self.open_site(site, {"scope": "bank", "name": "S", "run-sched-gpus": 4}, (0.5,))], []
        for count in range(4 + 112):
            if count == 4:
                steps.append({"submit": f"j{number}", "user": 5001, "bank": "B", "nodes": 1, "queue": "q1", "gpus": 4})
                number += 1
            user = self.rng.choice([5002, 5003])
            steps.append({"submit": f"j{number}", "user": user, "nodes": 1, "queue": "q1", "gpus": 1, "urgency": 20})
            small.append(f"j{number}")
            number += 1
            if count >= 4:
                steps.append({"cancel": small.pop(0)})
        return steps

    def begin_contest(self, site, number):
        """Returns first steps in which many jobs wait for the headroom of one bank, and one after the other ends."""
        rng, steps = self.rng, []
        cap = rng.choice([{"run-sched-jobs": 2}, {"sched-jobs": 1}, {"run-sched-nodes": 3}, {"run-jobs": 2}])
        steps.append(self.open_site(site, {"scope": "bank", "name": "S", **cap}, (0.1, 0.25, 0.5, 0.75, 1.0)))
        for count in range(45):
            if count < 12 or rng.random() < 0.4:
                user, bank = rng.choice(list(site.associations))
                steps.append({"submit": f"j{number}", "user": user, "bank": bank, "nodes": rng.choice([1, 1, 1, 2]),
                              "queue": rng.choice(["q1", "q1", "q2"]), "urgency": rng.choice([16, 16, 16, 10, 24, 31])})
                number += 1
            else:
                steps.append({"cancel": f"j{rng.randrange(max(1, number - 16), number)}"})
        return steps

    def open_site(self, site, limit, shares):
        """Returns the site with only this limit."""
        site.associations = {key: {"userid": key[0], "bank": key[1], "queues": "q1,q2", "fairshare": self.rng.choice(shares)}
                             for key in site.associations}
        site.queues = {name: {"queue": name, "priority": 0} for name in ("q1", "q2")}
        self.limits = [limit]
        return {"policy": self.added(copy.deepcopy(site.make_policy()))}

    def pick_gpus(self):
        """Returns the number of GPUs that a job requests."""
        return self.rng.choice([0, 0, 0, 1, 1, 2]) if self.has_scopes else 0
