# SPDX-License-Identifier: LGPL-3.0-only
"""Plays a history in the embedded job manager: `fairshare-embedded run --trace` performs each step and reports every event."""
import contextlib
import json
import os
import subprocess

from stream import Event

START = 1700000000.0  # the virtual time at the start
# Seconds that pass after each step of a history with budgets, so that all steps have different times. In histories of fewer than 500 steps, the run
# time of a job that ends at a step is never a multiple of half a millisecond.
TICK = 0.001137
FOLLOWED, BOUNDARY = 0.6, 0.1  # seconds after and before the start or end of a window


class Player:
    """Plays a history in one embedded job manager. `now` is the virtual time."""

    def __init__(self, script, document, command, plugin, keeper, directory):
        scenario = os.path.join(directory, "scenario.json")
        with open(scenario, "w", encoding="utf-8") as stream:
            json.dump(dict(script, document=document, steps=[]), stream)
        self.errors = open(os.path.join(directory, "errors"), "w+", encoding="utf-8")
        arguments = [command, "run", scenario, "--plugin", plugin, "--trace", "--keeper", keeper]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.now, self.has_budgets = START, "budgets" in document
        self.names, self.after = {}, {}  # the ids of jobs, and the jobs that they wait for, by label

    def play(self, step):
        """Plays the step and returns its outcome. In a history with budgets the time advances until the plugin has followed each window."""
        self.after.update((one["submit"], one.get("after")) for one in step.get("batch", [step]) if "submit" in one)
        began = self.now
        outcome = self.send({"wait": TICK, **with_limits(step)} if self.has_budgets else step)
        while self.has_budgets and self.is_amid_window(outcome["query"]):
            later = self.send({"wait": BOUNDARY})
            outcome.update((key, later[key]) for key in ("states", "query", "drift"))
            outcome["events"] += later["events"]
        return dict(outcome, began=began, until=self.now)

    def send(self, step):
        """Performs one step, and returns its outcome."""
        self.process.stdin.write(json.dumps(step) + "\n")
        self.process.stdin.flush()
        outcome = json.loads(self.process.stdout.readline())
        self.now = outcome["now"]
        # `outcome["ids"]` contains all jobs so far, but the returned ids contain only the jobs that this step added.
        ids = {name: jobid for name, jobid in outcome["ids"].items() if name not in self.names}
        self.names.update(ids)
        return dict(
            answers=outcome["answers"], ids=ids, query=outcome["query"], drift=outcome["drift"],
            states={int(jobid): state for jobid, state in outcome["states"].items()},
            events=[self.make_event(*entry) for entry in outcome["trace"]],
        )

    def make_event(self, jobid, name, context, at):
        """Returns the event as real Flux posts it, where the name of a dependency has the job id as it was given. R has the time of "alloc"."""
        context = context or {}
        if context.get("description", "").startswith("after-finish="):
            label = next((name for name, known in self.names.items() if known == jobid), None)
            context = {"description": f"after-finish={self.names.get(self.after.get(label))}"}
        if name == "alloc" and self.has_budgets:
            context = dict(context, start=at)
        event = Event((jobid, name, context))
        event.at = at
        return event

    def is_amid_window(self, query):
        """Returns whether a window has just begun or ended, or is about to. A limit that holds a job causes an event every half second (R7)."""
        boundaries = [at for one in (query or {}).get("budgets", []) for at in (one["start"], one["end"])]
        return any(self.now - FOLLOWED < at < self.now + BOUNDARY for at in boundaries)

    def end(self):
        """Ends the command, and returns the text of an error or None."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        # At its end, the command prints the events of all jobs. If the player does not read them, the command waits when the pipe is full.
        self.process.stdout.read()
        if self.process.wait() == 0:
            return None
        self.errors.seek(0)
        return self.errors.read().strip() or "the command failed"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def with_limits(step):
    """Returns the step with the time limits of jobs that real Flux gets."""
    if "batch" in step:
        return {"batch": [with_limits(one) for one in step["batch"]]}
    return {"limit": 36000, **step} if "submit" in step else step
