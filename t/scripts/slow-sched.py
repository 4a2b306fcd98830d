# SPDX-License-Identifier: LGPL-3.0-only
"""Flux's simple scheduler with delayed answers, as if its decisions took long to be written.

load: flux module load PATH/slow-sched.py hold=FILE   while FILE exists, each decision adds a line to it and no answer is sent
"""
import importlib.util
import os
import sys

NAME = "sched-simple"


def load_simple_scheduler():
    """Returns Flux's own module sched-simple."""
    for where in os.environ.get("FLUX_MODULE_PATH", "").split(":") + sys.path:
        path = os.path.join(where, NAME + ".py")
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location("sched_simple", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise FileNotFoundError(f"{NAME}.py is nowhere in FLUX_MODULE_PATH")


class SlowScheduler(load_simple_scheduler().SimpleScheduler):
    """A scheduler that holds its decisions back while a file exists."""

    def __init__(self, h, *args):
        self.hold = next(arg[5:] for arg in args if arg.startswith("hold="))
        self.decided = []
        super().__init__(h, *(arg for arg in args if not arg.startswith("hold=")))
        h.timer_watcher_create(0.05, self.tell, 0.05).start()

    def alloc_success(self, msg, R, annotations=None):
        if not os.path.exists(self.hold):
            super().alloc_success(msg, R, annotations)
            return
        self.decided.append((msg, R, annotations))
        with open(self.hold, "a", encoding="utf-8") as file:
            print(msg.payload["id"], file=file)

    def tell(self, *_):
        if not os.path.exists(self.hold):
            decided, self.decided = self.decided, []
            for answer in decided:
                super().alloc_success(*answer)


def mod_main(h, *args):
    SlowScheduler(h, *args).run()
