"""What a shared store adds to the latency of a call.

One gateway with its records in memory, and pairs that share a Redis, all with an API key, owners of tasks and a rate limit.
A send is answered with a new task, whose owner the store has to know before the answer leaves. A get of a task that this
gateway made asks nobody. A get of a task that the other one made has to ask the store. That it was so is read in the
gateways' metrics: a run in which it was not has failed.
"""

import re
import shutil
import subprocess
from statistics import median, quantiles

import proxies
import report
from procs import Failed

# Its name for `--only`.
NAME = "shared store"
WHAT = "shared_store"
SERVER = shutil.which("redis-server")
KIB = 1024

ROUND_TRIPS = re.compile(r'^a2a_gateway_store_round_trip_seconds_count\{operation="(\w+)"\} (\d+)$', re.MULTILINE)


class Memory(proxies.Gateway):
    name = "memory"
    other = None


class Redis(proxies.Gateway):
    """Two gateways on one server. Each keeps its rate limits by itself."""

    name = "Redis"
    limit = "shared: false"
    # Whether each call has to ask about its rate limit.
    asks_limits = False

    def __init__(self):
        super().__init__()
        self.other = None

    def start(self, processes, agent, folder, core):
        server = proxies.free_port()
        log = folder / "redis.log"
        argv = [SERVER, "--bind", proxies.HOST, "--port", server, "--dir", folder, "--save", "", "--appendonly", "no"]
        # Without a core of its own: beside the load, where this program runs.
        process = processes.start(argv, None, log)
        proxies.wait_for("redis-server", lambda: "Ready to accept" in log.read_text(errors="replace"), process, log)
        # With the usual timeout a store that is slow for once is given up, which would be no call as any other.
        self.state = f'{{ store: redis, redis: {{ url: "redis://{proxies.HOST}:{server}", timeout: 5s }} }}'
        super().start(processes, agent, folder, core)
        other = proxies.Gateway()
        other.name, other.credential, other.state, other.limit = f"{self.name}: the other one", self.credential, self.state, self.limit
        (folder / "other").mkdir()
        other.start(processes, agent, folder / "other", core)
        self.other = other


class RedisLimits(Redis):
    """The same with one rate limit over both."""

    name = "Redis, shared rate limit"
    limit = "shared: true"
    asks_limits = True


STORES = (Memory, Redis, RedisLimits)


def absence():
    """Why none of this can be measured here, if so."""
    if not proxies.Gateway.program:
        return "no gateway was given"
    if not SERVER:
        return "`redis-server` is not installed"
    return None


def version():
    said = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"v=(\S+)", said)
    return f"Redis {found.group(1) if found else 'of an unknown version'}"


def round_trips(gateway):
    """How often it asked the store, by what for."""
    text = proxies.request(gateway.admin, "GET", "/metrics")[1].decode()
    return {operation: int(count) for operation, count in ROUND_TRIPS.findall(text)}


def measure(bench, proxy):
    plan = bench.plan
    words = ["--size", KIB, "--rps", plan.shared_rps, "--seconds", plan.shared_seconds, "--warmup", 1, "--follow"]
    words += ["--connections", plan.connections]
    gateways = [proxy]
    if proxy.other:
        words += ["--other", f"{proxies.HOST}:{proxy.other.port}"]
        gateways.append(proxy.other)
    before = [round_trips(gateway) for gateway in gateways]
    result = bench.measured(proxy, "rate", *words)
    asked = [
        {operation: count - earlier.get(operation, 0) for operation, count in round_trips(gateway).items()}
        for gateway, earlier in zip(gateways, before, strict=True)
    ]
    if proxy.other:
        check(proxy, result["requests"], *asked)
    named = {"send": "latency", "get": "gets", "elsewhere": "gets_elsewhere"}
    return {
        f"{call}_{field}": result[name][field]
        for call, name in named.items()
        if name in result
        for field in ("p50_us", "p99_us")
    }


def check(proxy, calls, own, others):
    """Whether the store was asked as often as these calls make necessary, and no oftener."""
    limits = own.get("limit", 0)
    for what, holds in (
        ("not every send waited for the store", own.get("learn", 0) >= calls),
        ("a get of a known task asked the store", own.get("lookup", 0) == 0),
        ("not every get of an unknown task asked the store", others.get("lookup", 0) >= calls),
        ("not every call was counted in the store", not proxy.asks_limits or limits >= 2 * calls),
        ("calls were counted in the store", proxy.asks_limits or limits == 0),
    ):
        if not holds:
            raise Failed(f"{what}: {own} and {others} round trips for {calls} tasks")


# The table.

CALLS = (
    ("send", "send", "send"),
    ("get, task known", "get", "get"),
    ("get, another gateway's task", "elsewhere", "get"),
)


def section(bench):
    plan = bench.plan
    if not bench.stores:
        text = f"Not measured: {absence()}."
    else:
        text = f"""µs from the moment at which a call was to be sent to its answer, 1 KiB, {plan.shared_rps:,} calls a second, so that nothing queues.
{version()} without persistence, beside the load and the agents on their core. Medians of {bench.shared_turns} of {plan.shared_turns} turns; what is added
to memory is the median of the differences within a turn, in brackets their quartiles.

{table(bench)}"""
    return f"## Latency with a shared store\n\n{text}"


def table(bench):
    results = report.Results(bench)
    head = ["µs", Memory.name]
    for store in STORES[1:]:
        head += [store.name, "added"]
    rows = []
    for title, call, base in CALLS:
        for percentile, field in (("median", "p50_us"), ("p99", "p99_us")):
            row = [f"{title}: {percentile}", report.number(results.median(Memory.name, WHAT, f"{call}_{field}"))]
            for store in STORES[1:]:
                own = results.median(store.name, WHAT, f"{call}_{field}")
                row += [report.number(own), added(bench, store, f"{call}_{field}", f"{base}_{field}")]
            rows.append(row)
    return report.table(head, rows)


def added(bench, store, field, base):
    own, memory = ({entry["turn"]: entry for entry in bench.results.get((of.name, WHAT), [])} for of in (store, Memory))
    differences = [own[turn][field] - memory[turn][base] for turn in own.keys() & memory.keys()]
    if not differences:
        return report.NOTHING
    text = f"{median(differences):+,.0f}"
    if len(differences) > 1:
        low, _, high = quantiles(differences, n=4)
        text += f" ({low:+,.0f} to {high:+,.0f})"
    return text
