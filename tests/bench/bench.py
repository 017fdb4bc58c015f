#!/usr/bin/env python3
"""What a call or a card of the gateway costs, beside a bare hyper proxy, nginx, haproxy and no proxy; what a shared store adds.

Builds the programs of this folder, runs the proxies on one core, one at a time, and the load with the agents on another,
and prints one document of tables. README.md says how to read it.
"""

import argparse
import contextlib
import http.client
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import cards
import proxies
import report
import shared
from procs import Failed, Load, Processes, cpu_seconds, descriptors, resident_bytes

HERE = Path(__file__).resolve().parent
KIB = 1024

# Loopback addresses to call from when one has too few ports.
SOURCES = 8

# Opened upstream connections a call, above which they are not reused.
REUSE = 0.01

# How long each kind of run may take on a machine far slower than any that this was tried on.
LOAD_SECONDS = 60


class Plan:
    """How much is measured."""

    def __init__(self, quick):
        self.name = "quick" if quick else "full"
        self.quick = quick
        # The last moment to begin something.
        self.seconds = 150 if quick else 26 * 60
        self.rounds = 1 if quick else 4
        self.turns = 1 if quick else 12
        self.connections = 64
        # Size and calls, or calls a second: the slowest of the proxies is then about half as busy as it can be.
        self.closed = {"unary_1k": (KIB, 4000 if quick else 8000), "unary_64k": (64 * KIB, 1000 if quick else 3000)}
        self.follow = 3000 if quick else 6000
        self.steady = {"steady_1k": (KIB, 5000), "steady_64k": (64 * KIB, 1000)}
        self.steady_seconds = 1
        self.churn = 1_500
        self.rps = 2000
        self.rate_seconds = 1 if quick else 4
        # How long a closed loop may take, in seconds.
        self.longest = LOAD_SECONDS // 2
        self.first_events = 100
        self.events_seconds = 1
        self.streams = [1000]
        self.leave_seconds = 2
        self.shared_turns = 1 if quick else 8
        self.shared_rps = 500
        self.shared_seconds = 1
        self.card_turns = 1 if quick else 6
        self.card_rps = 1000 if quick else 5000
        self.card_seconds = 1
        self.card_requests = 2000 if quick else 8000
        if not quick:
            self.churn = 5_000
            self.first_events = 500
            self.events_seconds = 2
            self.streams = [1000, 10_000]
            self.leave_seconds = 12


class Bench:
    def __init__(self, options, plan, binaries, kinds, stores, card_kinds):
        self.plan = plan
        self.binaries = binaries
        self.kinds = kinds
        self.stores = stores
        self.card_kinds = card_kinds
        self.proxy_core = options.proxy_core
        self.load_core = options.load_core
        self.processes = Processes()
        self.results = defaultdict(list)
        self.failures = []
        self.started = time.monotonic()
        self.turns = 0
        self.rounds = 0
        self.shared_turns = 0
        self.card_turns = 0

    # One proxy with an agent of its own.

    @contextlib.contextmanager
    def running(self, kind):
        folder = Path(tempfile.mkdtemp(prefix="a2a-gateway-bench-"))
        others = list(self.processes.running)
        proxy = kind()
        log = folder / "load.log"
        try:
            port = proxies.free_port()
            agent = self.processes.start(
                [self.binaries / "agent", "--listen", f"{proxies.HOST}:{port}"], self.load_core, folder / "agent.log"
            )
            proxies.wait_for("agent", lambda: self.stats(port), agent, folder / "agent.log")
            proxy.start(self.processes, port, folder, self.proxy_core)
            proxy.agent = port
            proxy.load_log = log
            yield proxy
        finally:
            for process in reversed([one for one in self.processes.running if one not in others]):
                self.processes.stop(process)
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def stats(port):
        return json.loads(proxies.request(port, "GET", "/stats")[1])

    def load(self, proxy, mode, *words, seconds=LOAD_SECONDS):
        argv = [self.binaries / "load", mode, "--target", f"{proxies.HOST}:{proxy.port}", "--path", proxy.path]
        # A published card is for everybody.
        if proxy.credential and mode != "card":
            argv += ["--credential", ": ".join(proxy.credential)]
        if proxy.old:
            argv.append("--old")
        return Load(self.processes, [*argv, *words], self.load_core, proxy.load_log, seconds)

    # The measurements. Each returns numbers by name.

    def measured(self, proxy, mode, *words):
        """Runs a load; its result with the proxy's CPU time and the agent's counts over exactly that time."""
        with self.load(proxy, mode, *words) as load:
            load.ready()
            pids = proxy.pids() if proxy.has_process else []
            before, cpu = self.stats(proxy.agent), cpu_seconds(pids)
            result = load.go()
            result["cpu"] = cpu_seconds(pids) - cpu if pids else None
            after = self.stats(proxy.agent)
        result["opened"] = after["connections"] - before["connections"]
        result["asked"] = after["cards"] - before["cards"]
        return result

    def unary(self, proxy, *words, size, requests, reuse=True):
        result = self.measured(
            proxy,
            "unary",
            *("--size", size, "--requests", requests, "--warmup", max(requests // 10, 500)),
            *("--connections", self.plan.connections, "--seconds", self.plan.longest, *words),
        )
        calls = result["requests"]
        if calls < requests:
            raise Failed(f"{calls} of {requests} calls in {self.plan.longest} s")
        if reuse and proxy.has_process and result["opened"] > calls * REUSE:
            raise Failed(f"upstream connections are not reused: {result['opened']} opened for {calls} calls")
        return {
            "rps": result["rps"],
            "cpu_us": result["cpu"] and result["cpu"] / calls * 1e6,
            "busy": result["cpu"] and result["cpu"] / result["seconds"],
            "opened": result["opened"],
            "calls": calls,
            "p50_us": result["latency"]["p50_us"],
            "p99_us": result["latency"]["p99_us"],
        }

    def rate(self, proxy, size, rps, seconds):
        result = self.measured(
            proxy,
            "rate",
            *("--size", size, "--rps", rps, "--seconds", seconds, "--warmup", 1, "--connections", self.plan.connections),
        )
        latency = result["latency"]
        return {
            "p50_us": latency["p50_us"],
            "p99_us": latency["p99_us"],
            "cpu_us": result["cpu"] and result["cpu"] / result["requests"] * 1e6,
        }

    def first_event(self, proxy):
        result = self.measured(
            proxy,
            "first-event",
            *("--count", self.plan.first_events, "--warmup", 50, "--connections", 1, "--sources", SOURCES),
        )
        return {name: result["first_event"][name] for name in ("p50_us", "p99_us")}

    def events(self, proxy):
        result = self.measured(
            proxy,
            "events",
            *("--connections", self.plan.connections, "--events", self.plan.events_seconds * 100),
            *("--interval-us", 10_000, "--event-bytes", 256),
        )
        if result["events"] != result["events_expected"]:
            raise Failed(f"{result['events']} of {result['events_expected']} events came through")
        delays = result["later_events"]
        return {
            "cpu_us": result["cpu"] and result["cpu"] / result["events"] * 1e6,
            "p50_us": delays["p50_us"],
            "p99_us": delays["p99_us"],
        }

    def memory(self, proxy, wanted):
        """Resident memory idle but warm, with streams open, and after they left."""
        count = streams_possible(wanted)

        def warm():
            self.unary(proxy, size=KIB, requests=5000, reuse=False)

        warm()
        time.sleep(0.5)
        idle = resident_bytes(proxy.pids())
        with self.load(proxy, "streams", "--count", count, "--sources", SOURCES, "--seconds", 30) as load:
            load.ready()
            time.sleep(1)
            open_streams = self.stats(proxy.agent)["streams_open"]
            if open_streams != count:
                raise Failed(f"{open_streams} of {count} streams are open at the agent")
            opened = resident_bytes(proxy.pids())
            result = load.go()
            if result["open"] != count:
                raise Failed(f"{result['open']} of {count} streams stayed open")
        proxies.wait_for("the end of the streams", lambda: self.stats(proxy.agent)["streams_open"] == 0)
        time.sleep(self.plan.leave_seconds)
        # An allocator that gives memory back as it works gets work.
        warm()
        after = resident_bytes(proxy.pids())
        return {
            "count": count,
            "idle": idle,
            "open": opened,
            "after": after,
            "per_stream": (opened - idle) / count,
            "kept": after - idle,
        }

    # The order of things.

    def check_time(self):
        if time.monotonic() - self.started > self.plan.seconds:
            raise Failed(f"not begun: {self.plan.seconds} s are over")

    def record(self, kind, what, measure):
        """Runs one measurement; what fails is reported, the rest goes on."""
        try:
            self.results[kind.name, what].append(measure())
        except (Failed, OSError, http.client.HTTPException, ValueError) as error:
            self.fail(kind, what, error)

    def fail(self, kind, what, error):
        self.failures.append(f"{kind.name}, {what}: {error}")
        say(f"  FAILED {self.failures[-1]}")

    def turn(self, number, running):
        """What a call costs, of each proxy in turn, so that all of them meet the machine in the same mood."""
        plan = self.plan

        def measure(kind, what, one):
            self.record(kind, what, lambda: one() | {"turn": number})

        # Short runs side by side: what a machine with neighbours does to a figure, it does to the next one too.
        for what, (size, rps) in plan.steady.items():
            for kind, proxy in running:
                if kind.has_process:
                    measure(kind, what, lambda: self.rate(proxy, size, rps, plan.steady_seconds))
        for what, (size, requests) in plan.closed.items():
            for kind, proxy in running:
                measure(kind, what, lambda: self.unary(proxy, size=size, requests=requests))
        for kind, proxy in running:
            if proxy.old:
                continue
            measure(kind, "follow", lambda: self.unary(proxy, "--follow", size=KIB, requests=plan.follow))

    def shared_turn(self, number, running):
        for kind, proxy in running:
            self.record(kind, shared.WHAT, lambda: shared.measure(self, proxy) | {"turn": number})

    def card_turn(self, number, running):
        cards.turn(self, number, running)

    def take_turns(self, what, kinds, wanted, turn):
        """All of these kinds are up, and each turn is one for all of them; how many were taken."""
        taken = 0
        with contextlib.ExitStack() as stack:
            running = []
            for kind in kinds:
                try:
                    running.append((kind, stack.enter_context(self.running(kind))))
                except (Failed, OSError) as error:
                    self.fail(kind, "start", error)
            while running and taken < wanted:
                try:
                    self.check_time()
                except Failed as error:
                    say(f"time is up after {taken} turns: {error}")
                    break
                say(f"{what}: turn {taken + 1}")
                # Each turn begins with another one: none always follows the same.
                first = taken % len(running)
                turn(taken, running[first:] + running[:first])
                taken += 1
        return taken

    def round(self, kinds):
        for kind in kinds:
            say(f"round {self.rounds + 1}: {kind.name}")
            try:
                self.check_time()
                with self.running(kind) as proxy:
                    self.everything(kind, proxy)
            except (Failed, OSError) as error:
                self.fail(kind, "start", error)

    def everything(self, kind, proxy):
        plan = self.plan
        self.record(kind, "rate", lambda: self.rate(proxy, KIB, plan.rps, plan.rate_seconds))
        self.record(kind, "first_event", lambda: self.first_event(proxy))
        self.record(kind, "events", lambda: self.events(proxy))
        churn = ("--churn", "--sources", SOURCES)
        self.record(kind, "churn", lambda: self.unary(proxy, *churn, size=KIB, requests=plan.churn))

    def streams(self):
        for wanted in self.plan.streams:
            for kind in self.kinds:
                if not (kind.has_memory_quick if self.plan.quick else kind.has_memory):
                    continue
                say(f"{wanted} streams: {kind.name}")
                try:
                    self.check_time()
                    with self.running(kind) as proxy:
                        self.record(kind, f"streams_{wanted}", lambda: self.memory(proxy, wanted))
                except (Failed, OSError) as error:
                    self.fail(kind, f"streams_{wanted}", error)

    def run(self):
        self.streams()
        self.turns = self.take_turns("a call", self.kinds, self.plan.turns, self.turn)
        self.card_turns = self.take_turns(cards.NAME, self.card_kinds, self.plan.card_turns, self.card_turn)
        self.shared_turns = self.take_turns(shared.NAME, self.stores, self.plan.shared_turns, self.shared_turn)
        longest = 0
        for number in range(self.plan.rounds if self.kinds else 0):
            begun = time.monotonic()
            # Another round only if it fits, so that the whole ends in time on a slow machine as well.
            if number and begun - self.started + longest > self.plan.seconds:
                say(f"time is up after {number} rounds")
                break
            # Each round begins with another proxy: none always follows the same one.
            first = number % len(self.kinds)
            self.round(self.kinds[first:] + self.kinds[:first])
            self.rounds += 1
            longest = max(longest, time.monotonic() - begun)


def streams_possible(wanted):
    """A proxy needs two descriptors a stream, and some besides."""
    return min(wanted, (descriptors() - 400) // 2)


def say(text):
    print(text, file=sys.stderr, flush=True)


def build():
    target = HERE / "target"
    say("building")
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--manifest-path", HERE / "Cargo.toml", "--target-dir", target],
        check=True,
    )
    return target / "release"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gateway", type=Path, help="release binary of the gateway; without it the others are compared")
    parser.add_argument("--quick", action="store_true", help="one round, under 3 minutes; without it under 27")
    parser.add_argument("--rounds", type=int, help="how many rounds, when the time allows")
    parser.add_argument("--only", help=f"names of proxies, '{shared.NAME}' or '{cards.NAME}', separated by semicolons")
    parser.add_argument("--out", type=Path, help="write the document there, not to standard output")
    parser.add_argument("--json", type=Path, help="write every single result there")
    parser.add_argument("--proxy-core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    return parser.parse_args()


def choose(options):
    """The kinds of proxies that can be run here, the kinds of stores and those whose cards are measured (`None` where nobody
    wants them), and why others cannot."""
    kinds, missing = [proxies.Direct, proxies.Bare], []
    if options.gateway:
        if not os.access(options.gateway, os.X_OK):
            sys.exit(f"{options.gateway} is no program")
        proxies.Gateway.program = options.gateway.resolve()
        kinds += [proxies.Gateway, proxies.GatewayToken, proxies.GatewayRules, proxies.GatewayFrontDoor]
        kinds += [proxies.GatewayAccessLog, proxies.GatewayTranslating, proxies.GatewayEmbedded]
    else:
        missing.append("gateway: not given")
    for kind in (proxies.Nginx, proxies.Haproxy):
        if kind.binary:
            kinds.append(kind)
        else:
            missing.append(f"{kind.name}: not installed")
    stores = () if shared.absence() else shared.STORES
    gateways = [kind for kind in kinds if issubclass(kind, proxies.Gateway)]
    if options.only:
        names = [name.strip() for name in options.only.split(";")]
        unknown = set(names) - {kind.name for kind in kinds} - {shared.NAME, cards.NAME}
        if unknown:
            sys.exit(f"not among the proxies here: {', '.join(sorted(unknown))}")
        kinds = [kind for kind in kinds if kind.name in names]
        stores = stores if shared.NAME in names else None
        # Of the gateways that are named beside, or else of all.
        gateways = [kind for kind in gateways if kind in kinds] or gateways
        gateways = gateways if cards.NAME in names else None
    return kinds, stores, gateways, missing


def main():
    options = arguments()
    kinds, stores, card_kinds, missing = choose(options)
    cores = os.sched_getaffinity(0)
    if not {options.proxy_core, options.load_core} <= cores:
        sys.exit(f"cores {options.proxy_core} and {options.load_core} are needed, these can be used: {sorted(cores)}")
    plan = Plan(options.quick)
    plan.rounds = options.rounds or plan.rounds
    binaries = build()
    proxies.Bare.program = binaries / "bare"
    os.sched_setaffinity(0, {options.load_core})

    bench = Bench(options, plan, binaries, kinds, stores or (), card_kinds or ())

    def stop(number, _):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    try:
        bench.run()
    finally:
        bench.processes.stop_all()

    facts = report.Facts(HERE, [*kinds, *bench.stores, *bench.card_kinds], missing, options, sorted(cores))
    command = shlex.join(["tests/bench/bench.py", *sys.argv[1:]])
    sections = [of.section(bench) for of, wanted in ((cards, card_kinds), (shared, stores)) if wanted is not None]
    document = report.document(bench, facts, command, sections)
    if options.out:
        options.out.write_text(document)
    else:
        print(document)
    if options.json:
        raw = [{"proxy": name, "what": what, "rounds": rounds} for (name, what), rounds in bench.results.items()]
        options.json.write_text(json.dumps(raw, indent=1) + "\n")
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
