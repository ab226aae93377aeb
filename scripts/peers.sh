#!/bin/sh
# Makes the virtual environment $VENV with Lockwork and other job queues. Those of other languages are installed where
# npm or go is; Sidekiq is the system's.
set -eu

sh scripts/venv.sh
echo "Installing Lockwork and other queues into $VENV ..."
"$VENV/bin/python" -m pip install --quiet --editable '.[fast]' --group peers

# some queues need older versions of redis-py
install_apart() {
    queue=$1
    shift
    "$VENV/bin/python" -m venv "$VENV/$queue"
    "$VENV/$queue/bin/python" -m pip install --quiet "$@"
}
install_apart arq 'arq>=0.28'
install_apart saq 'saq[redis]>=0.26' typing_extensions # which it imports, and does not require
if command -v npm >/dev/null; then
    mkdir -p "$VENV/node"
    npm install --silent --prefix "$VENV/node" 'bullmq@^6' 'ioredis@^5'
fi
if command -v go >/dev/null; then
    go build -C benchmarks/peers/asynq -o "$(cd "$VENV" && pwd)/bin/asynq-peer" .
fi
