"""Makes an ES256 key pair, writes the public half as a JWKS and prints a signed token for each subject, one a line. Run
by the driver with the Python of `.venv-1.x`, which has the libraries for it.

    mint.py JWKS_FILE ISSUER AUDIENCE SUBJECT...
"""

import json
import sys
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm


def main() -> None:
    jwks_file, issuer, audience, *subjects = sys.argv[1:]
    key = ec.generate_private_key(ec.SECP256R1())
    public = ECAlgorithm(ECAlgorithm.SHA256).to_jwk(key.public_key(), as_dict=True)
    public |= {'kid': 'interop', 'alg': 'ES256', 'use': 'sig'}
    with open(jwks_file, 'w', encoding='utf-8') as file:
        json.dump({'keys': [public]}, file)
    now = int(time.time())
    for subject in subjects:
        claims = {'iss': issuer, 'aud': audience, 'sub': subject, 'iat': now, 'nbf': now - 5, 'exp': now + 7200}
        print(jwt.encode(claims, key, algorithm='ES256', headers={'kid': 'interop'}))


if __name__ == '__main__':
    main()
