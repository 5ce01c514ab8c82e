#!/bin/sh
# Start a command of guard-eval with the secrets that lie in files: they stand in no image, and in no setting that
# `docker inspect` shows. A variable that is set already stays as it is.
set -eu

SECRETS=${SECRETS:-/run/secrets}

# give VARIABLE FILE: let a variable have the content of a secret, if it has none yet.
give() {
    if eval "[ -z \"\${$1:-}\" ]" && [ -r "$SECRETS/$2" ]; then
        export "$1=$(cat "$SECRETS/$2")"
    fi
}
give PGPASSWORD db_password
give STREAMLIT_SERVER_COOKIE_SECRET cookie_secret
give OPENAI_API_KEY openai_api_key
exec guard-eval "$@"
