# The body of a row's guest program; tests/systems/run puts the row's values before it.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
lines=/dev/ttyS1
stty -F $lines raw 2>/dev/null
mkdir -p /usr/local/bin /srv
cp /row/qwed-mcp /usr/local/bin/qwed-mcp

as_root() { env HOME=/srv USER=root "$@"; }
as_ada() {
    setpriv --reuid 1000 --regid 1000 --init-groups --inh-caps=-all \
        env -i HOME=/home/ada USER=ada PATH=$PATH LANG=$LANG "$@"
}

# Reports one observation as a line `PHASE JSON`.
observe() {
    phase=$1
    shift
    # shellcheck disable=SC2086  # These are words.
    (cd / && "$@" python3 /row/observe.py $arguments /usr/local/bin/qwed-mcp </dev/null >/run/seen 2>/run/failed)
    printf '%s %s\n' "$phase" "$(tail -n 1 /run/seen)" >$lines
    sed "s/^/$phase stderr: /" /run/failed >$lines
}

report_failure() { printf 'failed %s: %s\n' "$1" "$(tail -c 2000 /run/log | tr '\n' ' ')" >$lines; }

if condition >/run/log 2>&1; then
    observe before $enter
    if [ "$then" = 1 ]; then
        if apply >/run/log 2>&1; then observe after $apply_enter; else report_failure remedy; fi
    fi
else
    report_failure condition
fi
sync
/row/busybox poweroff -f
