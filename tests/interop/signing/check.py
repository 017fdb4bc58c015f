"""Checks the signatures of cards with the Python SDK that it runs in (0.3 or 1.x).

    check.py canonical CARD...           prints, as a JSON list, what a signature of each card is over; null: not readable
    check.py verify JWKS CARD...         prints for each card how its check ended

What the SDK's own resolver would make of a document is what is checked.
"""

import json
import sys
from pathlib import Path

from a2a.types import AgentCard
from jwt import PyJWK
from jwt.exceptions import PyJWTError


ALGORITHMS = ['ES256', 'EdDSA', 'RS256']

try:
    from a2a.client.card_resolver import parse_agent_card
    from a2a.utils.signing import _canonicalize_agent_card as canonicalize
except ImportError:
    from a2a.utils.helpers import canonicalize_agent_card as canonicalize

    def parse_agent_card(document: dict) -> AgentCard:
        return AgentCard.model_validate(document)


def read(path: str) -> AgentCard:
    return parse_agent_card(json.loads(Path(path).read_text()))


def canonical(path: str) -> str | None:
    try:
        return canonicalize(read(path))
    except Exception:  # noqa: BLE001 whatever the SDK raises
        return None


def verify(keys: Path, path: str) -> str:
    from a2a.utils.signing import create_signature_verifier

    def key(kid: str | None, jku: str | None) -> PyJWK:
        for one in json.loads(keys.read_text())['keys']:
            if one['kid'] == kid:
                return PyJWK(one)
        raise PyJWTError(f'no key {kid} for {jku}')

    try:
        create_signature_verifier(key, ALGORITHMS)(read(path))
    except Exception as error:  # noqa: BLE001
        return f'{type(error).__name__}: {error}'
    return 'ok'


def main() -> None:
    command, *rest = sys.argv[1:]
    if command == 'canonical':
        found = [canonical(path) for path in rest]
    else:
        found = [verify(Path(rest[0]), path) for path in rest[1:]]
    print(json.dumps(found))


main()
