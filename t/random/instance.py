# SPDX-License-Identifier: LGPL-3.0-only
"""A real Flux instance of one broker with fake nodes and mock execution, and the stream of all its job events."""
import json
import os
import signal
import subprocess
import time

import flux
import flux.job
from flux.conf_builtin import conf_builtin_get
from flux.constants import FLUX_RPC_STREAMING

NODES = 128
CORES = 4
GPUS = 4
STATES = {1: "NEW", 2: "DEPEND", 4: "PRIORITY", 8: "SCHED", 16: "RUN", 32: "CLEANUP", 64: "INACTIVE"}
SERVICE = "job-manager.mf_priority."
ANY = (1 << 64) - 1


def without_rc1():
    """Returns the environment that disables the scripts in rc1.d, if Flux can disable them, as in t/lib.sh."""
    rc1 = os.path.join(conf_builtin_get("libexecdir"), "modprobe", "rc1.py")
    try:
        with open(rc1, encoding="utf-8") as stream:
            return {"FLUX_MODPROBE_DISABLE": "run-all-rc1"} if '@task("run-all-rc1"' in stream.read() else {}
    except OSError:
        return {}


class Instance:
    """An instance. `events` has every job event in the order in which the job manager posted it, also after `restart`."""

    def __init__(self, directory, plugin, keeper, queues):
        self.dir = directory
        self.keeper = keeper
        self.queues = queues
        os.makedirs(directory, exist_ok=True)
        self.plugin = os.path.join(directory, "mf_priority.so")
        if not os.path.lexists(self.plugin):
            os.symlink(os.path.realpath(plugin), self.plugin)
        self.broker = self.handle = self.journal = self.load = None
        self.table = {}
        self.seen = {}  # time of the last event of each job; events cannot be counted, because not all are logged
        self.events = []
        self.replaying = False
        self.backlog = []
        self.users = {}

    def start(self, document=None):
        """Starts a broker on the same state directory, with the plugin loaded with `document`, if any."""
        self.load = {"load": self.plugin}
        if document is not None:
            self.load["conf"] = {"config": document}
        path = os.path.join(self.dir, "conf.json")
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(self.conf(), stream)
        env = {k: v for k, v in os.environ.items() if k not in ("FLUX_URI", "FLUX_CONF_DIR")}
        env.update(without_rc1(), FLUX_DISABLE_JOB_CLEANUP="t", FLUX_PYCLI_LOGLEVEL="30")
        state = os.path.join(self.dir, "state")
        os.makedirs(state, exist_ok=True)
        uri = os.path.join(self.dir, "uri")
        if os.path.exists(uri):
            os.unlink(uri)
        with open(os.path.join(self.dir, "broker.log"), "a", encoding="utf-8") as log:
            # The standard input of the initial program ends with this process. Then the initial program ends, and the broker too.
            self.broker = subprocess.Popen(
                ["flux", "start", "-c", path, f"-Sstatedir={state}", "-Slog-stderr-level=3", "-Slog-ring-size=65536",
                 "sh", "-c", 'flux getattr local-uri >"$0.part" && mv "$0.part" "$0" && cat >/dev/null', uri],
                stdin=subprocess.PIPE, stdout=log, stderr=log, env=env, start_new_session=True)
        deadline = time.time() + 60
        while not os.path.exists(uri):
            if self.broker.poll() is not None or time.time() > deadline:
                raise RuntimeError("the broker did not start: see " + os.path.join(self.dir, "broker.log"))
            time.sleep(0.02)
        with open(uri, encoding="utf-8") as stream:
            self.uri = stream.read().strip()
        self.connect()

    def conf(self):
        """Returns Flux's configuration."""
        return {
            "fake-resources": {"nnodes": NODES, "cores-per-node": CORES, "gpus-per-node": GPUS},
            "exec": {"testexec": {"allow-guests": True}},
            "ingest": {"validator": {"disable": True}},
            "queues": self.queues,
            # The plugin stores no snapshot. So after a restart it has only the data that the test pushes.
            "fairshare": {"remember": False, "live": False, **self.table},
            "job-manager": {"plugins": [{"remove": ".priority-default"}, self.load, {"load": self.keeper}]},
        }

    def configure(self, table):
        """Configures another table [fairshare], at once and for later restarts."""
        self.table = table
        self.rpc("config.load", self.conf())

    def connect(self):
        """Opens a handle and the journal of events; known events of each job are skipped."""
        self.users = {}
        self.handle = flux.Flux(self.uri)
        self.replaying, self.backlog = True, []
        self.journal = self.handle.rpc("job-manager.events-journal", {"full": True}, flags=FLUX_RPC_STREAMING)
        while self.replaying:
            self.receive(5.0)

    def receive(self, timeout):
        """Reads one response of the journal into `events`, and returns False if none came in time."""
        try:
            self.journal.wait_for(timeout)
        except OSError:
            return False
        answer = self.journal.get()
        jobid, entries = answer["id"], answer["events"]
        self.journal.reset()
        if jobid in (-1, ANY):
            # The journal sends past events job by job. Sort the events of all jobs by time.
            self.backlog.sort(key=lambda event: event[1]["timestamp"])
            self.events += self.backlog
            self.backlog = []
            self.replaying = False
        elif self.replaying:
            known = self.seen.get(jobid, 0)
            self.backlog += [(jobid, entry) for entry in entries if entry["timestamp"] > known + 1e-6]
        else:
            self.events += [(jobid, entry) for entry in entries]
        for entry in entries:
            self.seen[jobid] = max(self.seen.get(jobid, 0), entry["timestamp"])
        return True

    def reload_manager(self):
        """Reloads the job manager and the modules that depend on it; its configuration loads the plugins."""
        self.journal = self.handle = None
        self.users = {}
        env = dict(os.environ, FLUX_URI=self.uri)
        # The reload of the job manager also ends job-list.
        for module in ("job-manager", "job-exec", "sched-simple", "job-list"):
            subprocess.run(["flux", "module", "reload", "--force", module], env=env, check=True, capture_output=True)
        self.connect()

    def stop(self):
        """Shuts the broker down in order; jobs stay."""
        if self.broker is None:
            return 0
        self.users = {}
        self.journal = self.handle = None
        self.broker.stdin.close()
        try:
            status = self.broker.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            status = -1
        self.broker = None
        return status

    def kill(self):
        """Kills the process group of the broker."""
        if self.broker is not None:
            os.killpg(self.broker.pid, signal.SIGKILL)
            self.broker.wait()
            self.broker = None

    def rpc(self, topic, payload=None):
        """Returns the answer to a request of the instance owner."""
        return self.handle.rpc(topic, payload).get_str()

    def of_user(self, userid):
        """Returns a handle with the credentials of `userid`."""
        if userid not in self.users:
            os.environ["FLUX_HANDLE_USERID"] = str(userid)
            try:
                self.users[userid] = flux.Flux(self.uri)
            finally:
                del os.environ["FLUX_HANDLE_USERID"]
        return self.users[userid]

    def jobs(self):
        """Returns {id: {"state", "urgency", "priority"}} of the active jobs."""
        attrs = ["userid", "urgency", "priority", "state", "annotations"]
        reply = self.handle.rpc("job-manager.list", {"max_entries": 0, "attrs": attrs}).get()
        return {job["id"]: dict(job, state=STATES[job["state"]]) for job in reply["jobs"]}

    def query(self):
        """Returns the query document of the plugin, or None if the plugin is not loaded."""
        try:
            return json.loads(self.rpc("job-manager.jobtap-query", {"name": "mf_priority.so"}))
        except OSError:
            return None

    def log(self):
        """Returns the log of the broker."""
        env = dict(os.environ, FLUX_URI=self.uri)
        return subprocess.run(["flux", "dmesg"], env=env, capture_output=True, text=True, check=False).stdout
