#!/usr/bin/env python3
"""What the official SDKs sign of cards, and whether they believe the signatures of the gateway.

    signatures.py --record               writes what each SDK signs of the recorded cards (`tests/cards/signing/canonical.json`)
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CARDS = HERE.parent / 'cards'
RECORD = CARDS / 'signing' / 'canonical.json'
CHECKERS = {
    'python-1.x': [HERE / '.venv-1.x/bin/python', HERE / 'signing/check.py'],
    'javascript-1.x': ['node', HERE / 'signing/check.mjs'],
    'python-0.3': [HERE / '.venv-0.3/bin/python', HERE / 'signing/check.py'],
}


def ask(checker: str, *arguments: object) -> list:
    command = [str(part) for part in [*CHECKERS[checker], *arguments]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def canonical() -> dict[str, dict[str, str | None]]:
    """By the path of a card and the name of an SDK."""
    cards = sorted([*CARDS.glob('[0-9h]*.json'), *CARDS.glob('signing/[0-9h]*.json')])
    found = {str(card.relative_to(CARDS)): {} for card in cards}
    for checker in CHECKERS:
        for name, text in zip(found, ask(checker, 'canonical', *cards), strict=True):
            found[name][checker] = text
    return found


def main() -> None:
    if sys.argv[1:] != ['--record']:
        sys.exit(__doc__)
    RECORD.write_text(json.dumps(canonical(), indent=1, ensure_ascii=False) + '\n')


if __name__ == '__main__':
    main()
