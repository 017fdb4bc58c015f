"""The document: tables of medians, each figure of a proxy with its ratio to the bare one."""

import datetime
import platform
import re
import subprocess
from statistics import median, quantiles

BASE = "bare"
NOTHING = "–"


class Facts:
    """On what it was measured."""

    def __init__(self, folder, kinds, missing, options, cores):
        lock = (folder / "Cargo.lock").read_text()
        self.date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        self.lines = [
            f"machine: {cpu_model()}, {len(cores)} cores, {memory()}",
            f"kernel: {platform.system()} {platform.release()}",
            f"cores: proxy alone on {options.proxy_core}; load and agent on {options.load_core}",
            "bare: " + ", ".join(f"{name} {locked(lock, name)}" for name in ("hyper", "tokio", "tikv-jemallocator")),
            f"compiler: {said('rustc', '--version')}",
        ]
        versions = {kind.version() for kind in kinds if kind.has_process}
        self.lines += sorted(version for version in versions if version)
        if options.gateway:
            self.lines.append(f"commit: {said('git', '-C', folder, 'describe', '--always', '--dirty')}")
        self.lines += [f"not measured: {text}" for text in missing]


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = int(re.search(r"^MemTotal:\s*(\d+)", file.read(), re.MULTILINE).group(1))
    return f"{kib / 1024 / 1024:.0f} GiB"


def locked(lock, name):
    found = re.search(rf'^name = "{re.escape(name)}"\nversion = "([^"]+)"', lock, re.MULTILINE)
    return found.group(1) if found else "?"


def said(*argv):
    try:
        run = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return "unknown"
    return run.stdout.strip() or "unknown"


class Results:
    """The medians of a run."""

    def __init__(self, bench):
        self.bench = bench
        self.names = [kind.name for kind in bench.kinds]

    def values(self, name, what, field):
        rounds = self.bench.results.get((name, what), [])
        return [entry[field] for entry in rounds if entry.get(field) is not None]

    def median(self, name, what, field):
        values = self.values(name, what, field)
        return median(values) if values else None

    def ratio(self, name, what, field):
        own, base = self.median(name, what, field), self.median(BASE, what, field)
        return f"{own / base:.2f}" if own is not None and base else NOTHING

    def paired(self, name, what, field):
        """The median of the ratios within each turn, with their quartiles."""
        own, base = ({entry["turn"]: entry[field] for entry in self.bench.results.get((of, what), [])} for of in (name, BASE))
        ratios = [own[turn] / base[turn] for turn in own.keys() & base.keys() if own[turn] and base[turn]]
        # The base's own are all 1.
        return quartiles_of(ratios[:1] if name == BASE else ratios)

    def spread(self, name, what, field, digits=1):
        """Median and, of several rounds, the smallest and the largest."""
        values = self.values(name, what, field)
        if not values:
            return NOTHING
        text = f"{median(values):.{digits}f}"
        if len(values) > 1:
            text += f" ({min(values):.{digits}f}–{max(values):.{digits}f})"
        return text


def quartiles_of(ratios):
    """Their median and, of several, the quartiles."""
    if not ratios:
        return NOTHING
    text = f"{median(ratios):.2f}"
    if len(ratios) > 1:
        low, _, high = quantiles(ratios, n=4)
        text += f" ({low:.2f}–{high:.2f})"
    return text


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def number(value, digits=0):
    return NOTHING if value is None else f"{value:,.{digits}f}"


def cpu_table(results, columns, figures):
    head = ["µs of CPU"]
    for title in columns.values():
        head += [title, "÷ bare"]
    rows = []
    for name in results.names:
        if name == "direct":
            continue
        row = [name]
        for what in columns:
            row += figures(name, what)
        rows.append(row)
    return table(head, rows)


def turns_table(results, columns):
    def figures(name, what):
        return number(results.median(name, what, "cpu_us"), 1), results.paired(name, what, "cpu_us")

    return cpu_table(results, columns, figures)


def rounds_table(results, columns):
    def figures(name, what):
        return results.spread(name, what, "cpu_us"), results.ratio(name, what, "cpu_us")

    return cpu_table(results, columns, figures)


def throughput_table(results):
    columns = {"unary_1k": "1 KiB", "unary_64k": "64 KiB", "churn": "new connection"}
    head = ["calls a second"]
    for title in columns.values():
        head += [title, "÷ bare", "core busy"]
    rows = []
    for name in results.names:
        row = [name]
        for what in columns:
            busy = results.median(name, what, "busy")
            row += [
                number(results.median(name, what, "rps")),
                results.ratio(name, what, "rps"),
                NOTHING if busy is None else f"{busy * 100:.0f} %",
            ]
        rows.append(row)
    return table(head, rows)


def rate_table(results):
    head = ["µs", "median", "÷ bare", "p99", "÷ bare", "CPU a call", "÷ bare"]
    rows = [
        [
            name,
            number(results.median(name, "rate", "p50_us")),
            results.ratio(name, "rate", "p50_us"),
            number(results.median(name, "rate", "p99_us")),
            results.ratio(name, "rate", "p99_us"),
            number(results.median(name, "rate", "cpu_us"), 1),
            results.ratio(name, "rate", "cpu_us"),
        ]
        for name in results.names
    ]
    return table(head, rows)


def delay_table(results):
    head = ["µs", "first: median", "minus direct", "÷ bare", "p99", "minus direct", "÷ bare", "later: median", "p99"]
    rows = []
    for name in results.names:
        row = [name]
        for field in ("p50_us", "p99_us"):
            own, direct = (results.median(of, "first_event", field) for of in (name, "direct"))
            added = None if own is None or direct is None else own - direct
            row += [number(own), number(added), results.ratio(name, "first_event", field)]
        row += [number(results.median(name, "events", field)) for field in ("p50_us", "p99_us")]
        rows.append(row)
    return table(head, rows)


def memory_table(results, what):
    head = ["", "KiB a stream", "÷ bare", "idle MiB", "open MiB", "after MiB", "kept MiB"]
    mib = 1024 * 1024
    rows = []
    for name in results.names:
        values = {field: results.median(name, what, field) for field in ("per_stream", "idle", "open", "after", "kept")}
        if values["idle"] is None:
            continue
        row = [name, number(values["per_stream"] / 1024, 1), results.ratio(name, what, "per_stream")]
        row += [number(values[field] / mib, 1) for field in ("idle", "open", "after", "kept")]
        rows.append(row)
    return table(head, rows)


def reuse_table(results):
    head = ["upstream connections opened", "calls", "opened"]
    rows = []
    for name in results.names:
        calls = opened = 0
        for what in ("unary_1k", "follow", "unary_64k", "churn"):
            calls += sum(results.values(name, what, "calls"))
            opened += sum(results.values(name, what, "opened"))
        if calls and name != "direct":
            rows.append([name, number(calls), number(opened)])
    return table(head, rows)


def document(bench, facts, command, more):
    """`more` are sections of others."""
    results = Results(bench)
    plan = bench.plan
    facts_text = "\n".join(f"- {line}" for line in facts.lines)
    steady = {
        what: f"{title}, {plan.steady[what][1]:,} calls a second"
        for what, title in (("steady_1k", "1 KiB"), ("steady_64k", "64 KiB"))
    }
    closed = {"unary_1k": "1 KiB", "follow": "send, get", "unary_64k": "64 KiB"}
    other = {"churn": "new connection", "events": "SSE event"}
    # The shared store alone has turns of its own.
    made = f", {bench.turns} of {plan.turns} turns, {bench.rounds} of {plan.rounds} rounds" if results.names else ""
    head = f"""# What a call costs

Made by `{command}` on {facts.date}: {plan.name} mode{made},
medians. `README.md` says what a row means. Compare within this document only: absolute figures move with the machine, ratios
hardly.

{facts_text}"""
    sections = [
        f"""## CPU time of a call, everybody at the same load

µs of the proxy's CPU, {plan.connections} connections. The ratio is the median of those of {bench.turns} turns; in brackets
their quartiles.

{turns_table(results, steady)}""",
        f"""## CPU time of a call in a closed loop

The same with as many calls a second as each proxy makes of it, so that everybody is at another load.

{turns_table(results, closed)}""",
        f"""## CPU time of connections and events

In brackets the smallest and the largest round.

{rounds_table(results, other)}""",
        f"""## Throughput

Closed loop, {plan.connections} connections. Where the proxy's core is not busy, the load's core set the figure.

{throughput_table(results)}""",
        f"""## Latency at {plan.rps:,} calls a second

1 KiB, counted from the moment at which a call was to be sent.

{rate_table(results)}""",
        f"""## Delay of events

From the agent's write to the caller's read: the first event of a stream, one stream at a time; later ones on
{plan.connections} streams with 100 events of 256 bytes a second each.

{delay_table(results)}""",
        *more,
    ]
    for wanted in plan.streams:
        what = f"streams_{wanted}"
        counts = {entry["count"] for name in results.names for entry in bench.results.get((name, what), [])}
        if not counts:
            continue
        count = max(counts)
        capped = "" if count == wanted else f" ({wanted:,} wanted; the limit of descriptors allows no more)"
        sections.append(
            f"""## Memory at {count:,} open streams{capped}

Resident memory of the proxy: warm without a stream, with the streams open, and {plan.leave_seconds} s and 5,000 calls after they left.

{memory_table(results, what)}"""
        )
    sections.append(f"## Upstream connections\n\n{reuse_table(results)}")
    failures = "\n".join(f"- {text}" for text in bench.failures) or "None."
    return "\n\n".join([head, *(sections if results.names else more), f"## Failures\n\n{failures}"]) + "\n"
