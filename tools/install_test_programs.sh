#!/bin/sh
# Install what the tests drive and pip cannot bring: Chromium and PostgreSQL, from Debian's packages.
# Without root (or sudo that asks nothing) it says what is missing, and those tests skip.
set -eu

missing=""
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed:$missing (no apt-get here); the tests that need them will skip" >&2
    exit 0
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "not installed:$missing; the tests that need them will skip. Install with: sudo apt-get install$missing" >&2
        exit 0
    fi
    as_root="sudo -n"
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
