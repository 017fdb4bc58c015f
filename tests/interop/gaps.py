"""What is known to differ between a call through the gateway and its baseline, and the table of the whole.

`gaps.toml` lists it: cells, scenarios, what is seen instead, and why. An entry that does not hold any more, because its
scenario passes, shows something else or is not run, is a failure like any other.
"""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).resolve().parent / 'gaps.toml'
DOCUMENT = Path(__file__).resolve().parent.parent / 'README.md'
BEGIN, END = '<!-- interop: begin -->', '<!-- interop: end -->'

# By cell (client>agent), then by scenario.
Results = dict[str, dict[str, dict]]


@dataclass(frozen=True)
class Gap:
    number: int
    cells: frozenset[str]
    scenarios: frozenset[str]
    seen: tuple[str, ...]
    reason: str


def _cells(group: str) -> list[str]:
    """`a,b>c,d` is every client before the sign with every agent behind it."""
    clients, agents = group.split('>')
    return [f'{client}>{agent}' for client in clients.split(',') for agent in agents.split(',')]


def load() -> list[Gap]:
    entries = tomllib.loads(FILE.read_text())['gap']
    gaps = []
    for number, one in enumerate(entries, 1):
        seen = one['seen'] if isinstance(one['seen'], list) else [one['seen']]
        cells = frozenset(cell for group in one['cells'] for cell in _cells(group))
        gaps.append(Gap(number, cells, frozenset(one['scenarios']), tuple(seen), one['reason']))
    taken: set[tuple[str, str]] = set()
    for gap in gaps:
        if not (gap.cells and gap.scenarios and gap.seen and all(gap.seen) and gap.reason):
            raise ValueError(f'gaps.toml: entry {gap.number} lacks cells, scenarios, seen or reason')
        here = {(cell, scenario) for cell in gap.cells for scenario in gap.scenarios}
        if twice := taken & here:
            raise ValueError(f'gaps.toml: {sorted(twice)} stand in two entries, the second is number {gap.number}')
        taken |= here
    return gaps


def apply(gaps: list[Gap], results: Results, whole: bool) -> list[str]:
    """Marks what the list expects (`gap` holds the number of the entry), and fails what does not keep to it. Gives what is
    wrong with the list itself; that only a `whole` run can tell."""
    wrong = []
    for gap in gaps:
        for cell in sorted(gap.cells):
            if cell not in results:
                if whole:
                    wrong.append(f'gaps.toml, entry {gap.number}: there is no cell {cell}')
                continue
            for scenario in sorted(gap.scenarios):
                result = results[cell].get(scenario)
                if result is None or result['ok'] is None:
                    if whole:
                        wrong.append(f'gaps.toml, entry {gap.number}: {cell} {scenario} is not run')
                    continue
                evidence = f'{result["detail"]} {json.dumps(result["observed"], ensure_ascii=False)}'
                if result['ok'] is True:
                    result |= {'ok': False, 'detail': f'passes, but stands in gaps.toml (entry {gap.number}): remove it'}
                elif any(seen in evidence for seen in gap.seen):
                    result['gap'] = gap.number
                else:
                    result['detail'] = f'gaps.toml (entry {gap.number}) expects {" or ".join(gap.seen)}, but: {result["detail"]}'
    return wrong


def table(gaps: list[Gap], results: Results) -> str:
    """Client by agent: how many scenarios passed, and the numbers of the gaps, which are explained below."""
    clients = list(dict.fromkeys(cell.split('>')[0] for cell in results))
    agents = list(dict.fromkeys(cell.split('>')[1] for cell in results))
    lines = ['| client | ' + ' | '.join(agents) + ' |', '|---' * (len(agents) + 1) + '|']
    for client in clients:
        cells = []
        for agent in agents:
            if f'{client}>{agent}' not in results:
                cells.append('not run')
                continue
            here = results[f'{client}>{agent}'].values()
            cell = str(sum(one['ok'] is True for one in here))
            if numbers := sorted({one['gap'] for one in here if 'gap' in one}):
                count = sum('gap' in one for one in here)
                cell += f' + {count} ({", ".join(map(str, numbers))})'
            cells.append(cell)
        lines.append(f'| {client} | ' + ' | '.join(cells) + ' |')
    lines.append('')
    for gap in gaps:
        lines.append(f'{gap.number}. {", ".join(f"`{name}`" for name in sorted(gap.scenarios))}: {gap.reason}')
    return '\n'.join(lines)


def documented() -> str:
    """The table as the document has it."""
    _, _, rest = DOCUMENT.read_text().partition(BEGIN)
    return rest.partition(END)[0].strip()


def document(text: str) -> None:
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f'{DOCUMENT} lacks the line {BEGIN} or {END}')
    DOCUMENT.write_text(f'{before}{BEGIN}\n{text}\n{END}{after}')
