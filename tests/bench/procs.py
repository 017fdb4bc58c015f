"""Starting, measuring and stopping processes.

Everything started here is remembered and stopped by its id, however the run ends; the kernel asks it to stop too should
this process be killed. Linux only: CPU time and memory come from the kernel's accounting of the process.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import threading
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)

# Asked to stop, then made to.
STOP_SECONDS = 5


class Failed(Exception):
    """Something that was to be measured did not work; the text says what."""


def descriptors():
    """How many descriptors a process can have here."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


class Processes:
    """The processes of one run."""

    def __init__(self):
        self.running = []

    def start(self, argv, core, output, **options):
        """Starts a program pinned to a core, its standard streams in the file `output` where not said otherwise."""

        def prepare():
            # Not SIGKILL: nginx's master has to end its workers.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if core is not None:
                os.sched_setaffinity(0, {core})
            limit = descriptors()
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        with open(output, "ab") as file:
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file} | options
            process = subprocess.Popen([str(word) for word in argv], preexec_fn=prepare, **streams)
        self.running.append(process)
        return process

    def stop(self, process):
        if process not in self.running:
            return
        self.running.remove(process)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def stop_all(self):
        for process in reversed(self.running[:]):
            self.stop(process)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


def cpu_seconds(pids):
    """CPU time that the processes took, all threads, also those that have ended, user and system.

    The kernel's CPU clock of a process counts nanoseconds; utime and stime in /proc/PID/stat count hundredths of a
    second of the same sum.
    """
    cpuclock_sched = 2
    return sum(time.clock_gettime((~pid << 3) | cpuclock_sched) for pid in pids)


def resident_bytes(pids):
    """Resident memory. From smaps_rollup: VmRSS lags behind by what each core has counted for itself."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Rss:"):
                    total += int(line.split()[1]) * 1024
    return total


class Load:
    """A run of the load generator, held at its start until `go`."""

    def __init__(self, processes, argv, core, log, seconds):
        self.processes = processes
        self.log = log
        self.process = processes.start(
            [*argv, "--step"], core, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        # Bounds the run even when the program under test never answers.
        self.watchdog = threading.Timer(seconds, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watchdog.cancel()
        self.processes.stop(self.process)

    def _line(self, what):
        line = self.process.stdout.readline()
        if not line:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                said = file.read()[-400:].strip()
            raise Failed(f"load ended {what}: {said or 'time is up'}")
        return json.loads(line)

    def ready(self):
        """Waits until the load is warm; what it then says."""
        about = self._line("before it was ready")["ready"]
        if about.get("errors"):
            raise Failed(f"{about['errors']} errors while warming up: {about.get('first_error')}")
        return about

    def go(self):
        """Lets the load go on, returns its result."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        result = self._line("without a result")
        if result["errors"]:
            raise Failed(f"{result['errors']} errors: {result['first_error']}")
        return result
