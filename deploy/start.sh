#!/bin/sh
# Start a command of guard-eval with the secrets that lie in files: they stand in no image, and in no setting that
# `docker inspect` shows. A variable that is set already stays as it is.
set -eu

SECRETS=${SECRETS:-/run/secrets}

if [ -z "${PGPASSWORD:-}" ] && [ -r "$SECRETS/db_password" ]; then
    PGPASSWORD=$(cat "$SECRETS/db_password")
    export PGPASSWORD
fi
if [ -z "${STREAMLIT_SERVER_COOKIE_SECRET:-}" ] && [ -r "$SECRETS/cookie_secret" ]; then
    STREAMLIT_SERVER_COOKIE_SECRET=$(cat "$SECRETS/cookie_secret")
    export STREAMLIT_SERVER_COOKIE_SECRET
fi
exec guard-eval "$@"
