#!/bin/sh
# Makes .venv-0.2, .venv-0.3, .venv-1.x, node_modules, js-0.3/node_modules and identity/node_modules inside this folder. Does nothing when they are up to date: each
# carries a stamp of the file that it was made from.
set -eu
cd "$(dirname "$0")"

python=${PYTHON:-python3}

fresh() { # fresh FOLDER SUM: whether FOLDER was made from the pins with that checksum
    [ -f "$1/.interop-stamp" ] && [ "$(cat "$1/.interop-stamp")" = "$2" ]
}

venv() { # venv FOLDER REQUIREMENTS
    sum=$(sha256sum "$2" | cut -d' ' -f1)-$("$python" -c 'import sys; print(sys.version.split()[0])')
    if fresh "$1" "$sum"; then return; fi
    rm -rf "$1"
    "$python" -m venv "$1"
    "$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$2"
    "$1/bin/pip" check --disable-pip-version-check
    echo "$sum" >"$1/.interop-stamp"
}

modules() { # modules FOLDER: of the packages that the files there name
    sum=$(cat "$1/package.json" "$1/package-lock.json" | sha256sum | cut -d' ' -f1)
    if fresh "$1/node_modules" "$sum"; then return; fi
    npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts --loglevel=error
    echo "$sum" >"$1/node_modules/.interop-stamp"
}

venv .venv-0.2 requirements-0.2.txt
venv .venv-0.3 requirements-0.3.txt
venv .venv-1.x requirements-1.x.txt
modules .
# Two versions of one package cannot stand in one folder.
modules js-0.3
# The identity provider has nothing to do with the SDKs.
modules identity
