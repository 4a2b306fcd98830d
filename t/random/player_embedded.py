# SPDX-License-Identifier: LGPL-3.0-only
"""Plays a history in the embedded job manager: `fairshare-embedded run` reports every event."""
import json
import os
import subprocess


def play(script, command, plugin, keeper, directory):
    """Returns the outcome of each step, and a text of errors at the end or None."""
    scenario = os.path.join(directory, "scenario.json")
    with open(scenario, "w", encoding="utf-8") as stream:
        json.dump(script, stream)
    arguments = [command, "run", scenario, "--plugin", plugin, "--trace", "--keeper", keeper]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    names, outcomes = {}, []
    for line in done.stdout.splitlines():
        outcome = json.loads(line)
        if "trace" not in outcome:
            continue
        # The trace has all ids, a step only its new ones.
        ids = {name: jobid for name, jobid in outcome["ids"].items() if name not in names}
        names.update(ids)
        outcomes.append(dict(
            answers=outcome["answers"], ids=ids, query=outcome["query"], drift=outcome["drift"],
            states={int(jobid): state for jobid, state in outcome["states"].items()},
            events=[event(*entry, script, names) for entry in outcome["trace"]],
        ))
    trouble = done.stderr.strip() if done.returncode != 0 else None
    return outcomes, trouble


def event(jobid, name, context, script, names):
    """Returns the event as real Flux posts it, where the name of a dependency has the job id as it was given."""
    text = (context or {}).get("description", "")
    if text.startswith("after-finish="):
        label = next((name for name, known in names.items() if known == jobid), None)
        after = waits_for(script).get(label)
        context = {"description": f"after-finish={names.get(after)}"}
    return (jobid, name, context or {})


def waits_for(script):
    """Returns {label: the job that it waits for}."""
    jobs = [one for step in script["steps"] for one in step.get("batch", [step]) if "submit" in one]
    return {job["submit"]: job.get("after") for job in jobs}
