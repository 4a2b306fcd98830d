# SPDX-License-Identifier: LGPL-3.0-only
"""Plays each step of a history through all models that agree with the steps before. If no model agrees, there is a difference."""
from compare import Follower, make_job, compare_query
from budgets import Beginning, list_overspent
from model import Model
from stream import Difference

ENOUGH = 64  # the most readings of one step
ORDER = ("associations", "queues", "projects", "banks", "priority_factors", "config")  # the order of a push


class Judge:
    """`models` has the models that agree so far, one for each reading of the open questions."""

    def __init__(self, document, has_gpus=False, at=0.0, virtual=None):
        self.models, self.names, self.windows, self.overspent = [Model()], {}, {}, {}
        self.models[0].virtual = virtual or {}
        document = self.add_spent({"document": document}, at)["document"]
        self.models[0].has_gpus, self.models[0].last_seen = has_gpus, at
        self.models[0].update(document, whole=True)
        self.conf = document  # a restarted job manager loads the plugin with it

    def add_spent(self, step, at):
        """Returns the step with the spent amounts of budgets, which a push brings from the accounting database."""
        return {key: self.models[0].add_spent(value, self.windows, at) if isinstance(value, dict) and "tree" in value else value
                for key, value in step.items()}

    def step(self, step, outcome):
        """Compares a step with its outcome {"events", "answers", "ids", "query", "states"}. A failure changes nothing."""
        if "module" in step:
            step = {"module": self.conf}
        names = dict(self.names, **{name: jobid for name, jobid in outcome["ids"].items() if jobid is not None})
        left, failures = [], []
        for model in self.models:
            self.read(model, step, outcome, names, left, failures)
        if not left:
            text = max(failures, key=lambda failure: failure[0])[1]
            by_id = {str(jobid): name for name, jobid in names.items()}
            for jobid in sorted(by_id, key=len, reverse=True):
                text = text.replace(jobid, by_id[jobid])
            raise Difference(text)
        self.check_overspent(step, outcome)
        self.models, self.names = merge_models(left), names
        self.conf = step.get("restart", self.conf)

    def check_overspent(self, step, outcome):
        """B9: what is spent and committed of a budget exceeds the deposits only after a change of deposits, charge factors or windows, and then
        not more than before. With "warn", budgets hold no job."""
        found = list_overspent(outcome["query"])
        is_warning = self.models[0].table.get("budgets") == "warn"
        # A push may bring the associations of jobs in SCHED and RUN, which count from then on.
        has_waiting = any(job.active() and job.assoc is None for job in self.models[0].jobs.values())
        is_warning |= has_waiting and bool(set(step) & {"push", "data"})
        if not is_warning and not set(step) & {"config", "policy", "parts", "load", "reload", "restart", "module", "rush"}:
            for key, amount in found.items():
                if amount > max(0, self.overspent.get(key, amount)):
                    raise Difference(f"budget {key} is overspent by {amount}, before by {self.overspent[key]}")
        self.overspent = found

    @staticmethod
    def read(model, step, outcome, names, left, failures):
        """Returns all readings of the step that begin with this model."""
        stack = [()]
        for _ in range(ENOUGH):
            if not stack:
                return
            choices = stack.pop()
            after = model.clone()
            follower = Follower(after, outcome["events"], choices, outcome.get("until", 0.0))
            try:
                begin(follower, step, outcome, names)
                follower.run()
                check_settled(follower, outcome)
                after.does = after.happens = None
                left.append(after)
            except Difference as difference:
                failures.append((follower.at, str(difference)))
            for at in range(len(choices), len(follower.asked)):
                for value in range(1, follower.asked[at]):
                    stack.append(choices + (0,) * (at - len(choices)) + (value,))


def merge_models(models):
    """Merges models in the same state that differ in one open question, which then stays open."""
    groups = {}
    for model in models:
        state = repr([job for job in model.jobs.values() if job.active()])
        decided = groups.setdefault(state, (model, []))[1]
        if model.decided not in decided:
            decided.append(model.decided)
    result = []
    for model, ways in groups.values():
        while (pair := next(are_mergeable(ways), None)) is not None:
            one, other, key = pair
            ways.remove(one)
            ways.remove(other)
            common = {k: v for k, v in one.items() if k != key}
            if common not in ways:
                ways.append(common)
        for way in ways:
            result.append(model.clone())
            result[-1].decided = way
    return result


def are_mergeable(ways):
    """Returns pairs that differ in the answer to one question, and pairs in which one model has more answers than the other."""
    for index, one in enumerate(ways):
        for other in ways[index + 1:]:
            different = [key for key in set(one) | set(other) if one.get(key) != other.get(key)]
            if len(different) == 1:
                yield one, other, different[0]


def begin(follower, step, outcome, names):
    """Makes the changes of the step itself, before its events."""
    model = follower.model
    answer = outcome["answers"][0] if outcome["answers"] else None
    if "submit" in step or "batch" in step:
        # Jobs of the same batch cannot depend on each other, because they have no ids yet.
        known = {name: jobid for name, jobid in names.items() if name not in outcome["ids"]}
        submit_batch(follower, zip(step.get("batch", [step]), outcome["answers"]), outcome["ids"], known)
        return
    if "update" in step:
        update(follower, step, answer, names)
    elif set(step) & {"data", "push", "policy", "parts"}:
        if answer is not None:
            follower.fail(f"refused: {answer}")
        if model.loaded:
            key = next(key for key in ("data", "push", "policy", "parts") if key in step)
            model.update(step[key], whole=key in ("policy", "parts"))
            model.is_stale = key == "data" or model.is_stale
            follower.has_early_data = key == "push"
            if key == "data":
                model.may_read |= {job.assoc for job in model.jobs.values() if job.replayed and job.charge == "sched"}
            if key != "data":
                follower.reprioritize()
    elif "stop" in step or "start" in step:
        model.is_stopped = "stop" in step
        if not model.is_stopped and model.knows_stopped:
            model.knows_stopped = False
            follower.due += [key for key in model.associations if key not in follower.due]
    elif "config" in step:
        if answer is not None:
            follower.fail(f"refused: {answer}")
        configure(follower, step["config"], outcome.get("began", 0.0), step.get("virtual"))
    elif "reprioritize" in step:
        if model.loaded:
            follower.reprioritize()
    elif "remove" in step:
        model.loaded = False
    elif "rush" in step:
        model.replay(None)
        # After a load, a timer asks for priorities. The timer may fire during the push, before all of the data have arrived.
        come = follower.choose(len(ORDER) + 1)
        if come:
            model.update({kind: step["rush"][kind] for kind in ORDER[:come] if kind in step["rush"]})
            follower.reprioritize()
        model.update(step["rush"])
        follower.replay(is_restart=False)
    else:
        for key in ("reload", "load", "restart", "module"):
            if key in step:
                if answer is not None:
                    follower.fail(f"refused: {answer}")
                model.replay(step[key])
                if model.budgets:
                    model.load_charges(step[key], outcome.get("began", 0.0))
                follower.replay(is_restart=key in ("restart", "module"))


def configure(follower, table, at=0.0, virtual=None):
    """Applies another table [fairshare]: limits change as at the end of a push. If another largest priority applies, Flux asks for all
    priorities. If a rule for running limits, a charge or the parent of a queue changes, jobs that fit go."""
    model = follower.model
    has_new_charges = model.note_charges(table, at)
    before, model.virtual = model.virtual, model.virtual if virtual is None else virtual
    changed = model.configure(table)
    changed |= {"running-limits"} if model.virtual != before else set()
    if not model.loaded:
        return
    if "limits" in changed:
        follower.reprioritize()
    elif "priorities" in changed:
        follower.read_priorities()
    if model.budgets and (has_new_charges or "budgets" in changed):
        follower.due += [key for key in model.associations if key not in follower.due]
    if "running-limits" in changed and model.is_stale:
        # The push added replayed jobs to some associations. Until the next reprioritize, the plugin makes no release scan for these
        # associations.
        follower.may.update(model.associations)
    elif "running-limits" in changed:
        follower.due += [key for key in model.associations if key not in follower.due]


def submit_batch(follower, batch, ids, names):
    """Submits jobs. Flux gets the jobs of several users in any order: it accepts jobs in the order of their ids, and may refuse a job between
    any two of them."""
    batch = [(ids.get(step["submit"]), step, refused) for step, refused in batch]
    accepted = sorted((entry for entry in batch if entry[0] is not None), key=lambda entry: entry[0])
    left = [entry for entry in batch if entry[0] is None]
    for jobid, step, refused in accepted:
        left = [entry for entry in left if not is_refusal_right(follower, *entry[1:], names)]
        submit(follower, step, refused, jobid, names)
    for jobid, step, refused in left:
        submit(follower, step, refused, jobid, names)


def is_refusal_right(follower, step, refused, names):
    """Returns whether a job would be refused with this text now."""
    try:
        submit(follower, step, refused, None, names)
        return True
    except Difference:
        return False


def submit(follower, step, refused, jobid, names):
    model, after = follower.model, step.get("after")
    if after is not None and after not in names:
        after = None
    job = make_job(model, jobid, step, after)
    if not model.loaded:
        want = []
        job.replayed = True
    else:
        want = model.validate(job)
    if jobid is None:
        if not any(is_allowed_text(refused, text) for text in want):
            follower.fail(f"{step['submit']}: expected {want or 'to be accepted'}, refused: {refused}")
        return
    if want:
        follower.fail(f"{step['submit']}: expected to be refused: {want}")
    model.jobs[jobid] = job
    if model.loaded:
        model.attach(job)
        job.unchecked = job.assoc is None


def is_allowed_text(refused, want):
    """Returns whether a refusal, or its absence, is as expected. Advice may follow the text."""
    text = want if isinstance(want, Beginning) else f"{want}; "
    return refused == want or bool(want and refused and refused.startswith(text))


def update(follower, step, answer, names):
    model, job = follower.model, follower.model.jobs.get(names.get(step["update"]))
    if job is None:
        return
    key = "queue" if "queue" in step else "bank"
    if model.loaded and job.state in ("DEPEND", "PRIORITY", "SCHED"):
        allowed = getattr(model, "update_" + key)(job, step[key])
        is_host = answer is not None and step[key] == getattr(job, key)
        if not any(is_allowed_text(answer, text) for text in allowed) and not is_host:
            follower.fail(f"{step}: expected {' or '.join(map(str, allowed))}, seen {answer}")
    if answer is None:
        follower.updating = job.id


def check_settled(follower, outcome):
    """Compares states and query after the step."""
    model = follower.model
    for jobid, state in outcome["states"].items():
        if model.jobs[jobid].state != state:
            follower.fail(f"job {jobid}: expected state {model.jobs[jobid].state}, seen {state}")
    if model.loaded and outcome["query"] is not None:
        wrong = compare_query(model, outcome["query"], outcome.get("until", 0.0))
        if wrong:
            follower.fail("the query:\n" + "\n".join(wrong))
    if outcome.get("drift"):
        follower.fail(f"check: {outcome['drift']}")
