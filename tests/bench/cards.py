"""What it costs to serve a published card, beside a call through the same gateway.

Every caller asks for the card before its first call, and again when its copy is old: whole (200), or whether it is still the
same (`If-None-Match`, 304). A gateway keeps the card ready, so a card has to cost less than a call, which is read, judged
and handed on. Call, card and 304 follow each other at once, and what is compared is of the same turn.
"""

from statistics import median

import report
from procs import Failed

# Its name for `--only`.
NAME = "cards"
KIB = 1024

# How the load comes, by the name of its results, and what the table says of it.
LOADS = {"cards_steady": "at the same load", "cards_closed": "in a closed loop"}

ANSWERS = {"card": (), "not_modified": ("--etag",)}


def measure(bench, proxy, what):
    """µs of CPU a call, a card and a 304; how many bytes the card has."""
    plan = bench.plan
    requests, words = plan.card_requests, ["--connections", plan.connections, "--warmup", plan.card_requests // 4]
    if what == "cards_steady":
        call = bench.rate(proxy, KIB, plan.card_rps, plan.card_seconds)
        requests = plan.card_rps * plan.card_seconds
        words += ["--rps", plan.card_rps, "--seconds", plan.card_seconds]
    else:
        call = bench.unary(proxy, size=KIB, requests=requests)
        words += ["--requests", requests, "--seconds", plan.longest]
    found = {"call": call["cpu_us"]}
    for answer, more in ANSWERS.items():
        result = bench.measured(proxy, "card", *words, *more)
        if result["requests"] < requests:
            raise Failed(f"{result['requests']} of {requests} cards")
        # It looks from time to time whether the agent has a new one.
        if result["asked"] > 1:
            raise Failed(f"the agent was asked for {result['asked']} of {requests} cards")
        found[answer] = result["cpu"] / result["requests"] * 1e6
        found["bytes"] = result["card_bytes"]
    return found


def turn(bench, number, running):
    for what in LOADS:
        for kind, proxy in running:
            bench.record(kind, what, lambda: measure(bench, proxy, what) | {"turn": number})


# The tables.


def section(bench):
    plan = bench.plan
    if not bench.card_kinds:
        text = "Not measured: no gateway was given."
    else:
        tables = [f"{title(plan, what)}:\n\n{table(bench, what)}" for what in LOADS]
        text = "\n\n".join(
            [
                f"""µs of the gateway's CPU, {plan.connections} connections that are open. The call is `SendMessage` of 1 KiB; ratios are the medians of those
within a turn, of {bench.card_turns} of {plan.card_turns} turns, in brackets their quartiles.""",
                *tables,
            ]
        )
    return f"## CPU time of a card\n\n{text}"


def title(plan, what):
    rate = f", {plan.card_rps:,} a second of each" if what == "cards_steady" else ""
    return f"{LOADS[what].capitalize()}{rate}"


def table(bench, what):
    head = ["µs of CPU", "call", "card", "card ÷ call", "304", "304 ÷ call", "bytes of the card"]
    rows = []
    for kind in bench.card_kinds:
        turns = bench.results.get((kind.name, what), [])
        row = [kind.name, middle(turns, "call", 1)]
        for answer in ANSWERS:
            row += [middle(turns, answer, 1), report.quartiles_of([one[answer] / one["call"] for one in turns if one["call"]])]
        rows.append([*row, middle(turns, "bytes", 0)])
    return report.table(head, rows)


def middle(turns, field, digits):
    return report.number(median(one[field] for one in turns) if turns else None, digits)
