# shellcheck shell=bash
# What infra/start, infra/test and .ci/run share. Sourced, not run.

# say prints one line of progress with the seconds since the script began.
say() { printf '[%4ds] %s\n' "$SECONDS" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

cache_dir() {
    if [ "$(uname)" = Darwin ]; then
        echo "$HOME/Library/Caches/outbox-playground"
    else
        echo "${XDG_CACHE_HOME:-$HOME/.cache}/outbox-playground"
    fi
}

child='' ticker=''

# run COMMAND…: in the background, so that a signal to this script is not kept
# waiting for the command's end.
run() {
    local code=0
    "$@" </dev/null &
    child=$!
    wait "$child" || code=$?
    child=''
    return "$code"
}

# interrupted ends what runs at the moment; the trap of every script here.
interrupted() {
    trap '' INT TERM HUP
    kill "$ticker" 2>/dev/null
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null
        wait "$child" 2>/dev/null
    fi
    say "interrupted"
    exit 130
}
trap interrupted INT TERM HUP

# remind WHAT LOG: every ten seconds a line with the last words of the log, until it is killed.
remind() {
    local nap=''
    trap 'kill "$nap" 2>/dev/null; exit' TERM
    while :; do
        sleep 10 >/dev/null 2>&1 &
        nap=$!
        wait "$nap"
        say "… still $1: $(tail -n 1 "$2" | cut -c1-70)"
    done
}

# patiently WHAT COMMAND…: runs the command, says every ten seconds that it still
# does, and shows the end of its output when it fails.
patiently() {
    local what=$1 log code=0
    shift
    log=$(mktemp)
    say "$what"
    remind "${what%% (*}" "$log" &
    ticker=$!
    run "$@" >"$log" 2>&1 || code=$?
    kill "$ticker" 2>/dev/null
    wait "$ticker" 2>/dev/null
    ticker=''
    if [ "$code" -ne 0 ]; then
        tail -n 30 "$log" >&2
        say "failed (exit code $code): $*"
    fi
    rm -f "$log"
    return "$code"
}

# need_go: is there a Go that can build what go.mod asks for?
need_go() {
    local want
    want=$(awk '$1 == "go" { print $2 }' go.mod)
    command -v go >/dev/null || die "Go $want is needed: https://go.dev/dl/ (macOS: brew install go)"
    # Go fetches the toolchain that go.mod names unless it is told not to.
    go env GOVERSION >/dev/null 2>&1 || die "Go $want is needed, and this one cannot fetch it: https://go.dev/dl/"
    local have
    have=$(go env GOVERSION)
    have=${have#go}
    if [ "$(printf '%s\n%s\n' "$want" "${have%%[-+ ]*}" | sort -V | head -n 1)" != "$want" ]; then
        die "Go $want is needed, this is $have: https://go.dev/dl/ (macOS: brew upgrade go)"
    fi
    say "Go $have"
}

# as_root COMMAND…: runs it as root, never asking for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_be_root() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

# has WHAT: is the server (or tool) on this machine, where infra/servers finds it?
has() {
    case $1 in
        postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' || compgen -G '/usr/pgsql-*/bin/initdb' ||
            compgen -G '/opt/homebrew/opt/postgresql@*/bin/initdb' || compgen -G '/usr/local/opt/postgresql@*/bin/initdb' ||
            command -v initdb ;;
        rabbitmq-server) compgen -G '/usr/lib/rabbitmq/*bin/rabbitmq-server' || compgen -G '/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server' ||
            compgen -G '/opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server' || compgen -G '/usr/local/opt/rabbitmq/sbin/rabbitmq-server' ;;
        nats-server) command -v nats-server || compgen -G '/usr/sbin/nats-server' ;;
        pgbouncer) command -v pgbouncer || compgen -G '/usr/sbin/pgbouncer' ;;
        default-jre-headless) has_java ;;
        maven) command -v mvn ;;
        libc6-dev) [ -e /usr/include/stdlib.h ] || [ "$(uname)" = Darwin ] ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# has_java: Kafka 4 wants Java 17. (On macOS /usr/bin/java may be a stub that only complains.)
has_java() {
    local v
    v=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${v:-0}" -ge 17 ]
}

brew_name() {
    case $1 in
        postgresql) echo postgresql@17 ;;
        rabbitmq-server) echo rabbitmq ;;
        redis-server) echo redis ;;
        default-jre-headless) echo openjdk ;;
        *) echo "$1" ;;
    esac
}

# install PACKAGE…: installs those Debian packages that are not here yet. Where it
# may not, it prints the one command and returns 1.
install() {
    local missing=() p
    for p in "$@"; do has "$p" || missing+=("$p"); done
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(uname)" = Darwin ]; then
        local names=()
        for p in "${missing[@]}"; do names+=("$(brew_name "$p")"); done
        say "missing here; turn it on with:  brew install ${names[*]}"
        return 1
    fi
    if ! command -v apt-get >/dev/null; then
        say "missing here, and there is no apt-get; install with your package manager: ${missing[*]}"
        return 1
    fi
    if ! may_be_root; then
        say "missing here; turn it on with:  sudo apt-get update && sudo apt-get install -y ${missing[*]}"
        return 1
    fi
    apt "${missing[@]}"
}

apt() {
    local p failed=0
    patiently "updating the list of packages" as_root apt-get update -q || say "going on with the old list"
    for p in "$@"; do
        patiently "installing $p" as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -q --no-install-recommends "$p" || failed=1
    done
    return "$failed"
}
