# The program that the guest system runs for a row. tests/systems/run writes the row's values before it.
# shellcheck shell=sh disable=SC2154  # tests/systems/run assigns them.
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

# Reports the start of a step. If a row does not end, the last steps are printed.
began() { printf 'began %s after %s s\n' "$1" "$(cut -d ' ' -f 1 /proc/uptime)" >$lines; }

# Creates a root file system for containers. Its programs come from this system.
make_box() {
    for name in usr etc proc sys dev tmp run home root row var srv; do mkdir -p "/srv/box/$name"; done
    for name in bin sbin lib lib64; do ln -sfn "usr/$name" "/srv/box/$name"; done
    cp -a /etc/passwd /etc/group /etc/ld.so.cache /srv/box/etc/
    chmod 1777 /srv/box/tmp /srv/box/home
    chown -R "$1:$1" /srv/box
    install -d -m 700 -o 1000 -g 1000 /run/ada
    mount --make-rshared /
}
podman_options="--rm --network=none --env=HOME=/home --env=USER=root --volume=/usr:/usr:ro --volume=/row:/row:ro"
rootless() {
    # shellcheck disable=SC2086  # These are words.
    as_ada XDG_RUNTIME_DIR=/run/ada podman --cgroup-manager=cgroupfs run --cgroups=disabled $podman_options "$@"
}
rootful() {
    # shellcheck disable=SC2086  # These are words.
    as_root podman --cgroup-manager=cgroupfs run --cgroups=disabled $podman_options "$@"
}
start_docker() {
    dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=overlay2 >/run/docker.log 2>&1 &
    for _ in $(seq 60); do docker info >/dev/null 2>&1 && break; sleep 1; done
    docker info >/dev/null || { tail -n 20 /run/docker.log; return 1; }
    began import
    tar -C /srv/box -c . | docker import - box
}
# Runs `docker run OPTIONS…` with the image that start_docker has created.
docker_run() {
    # shellcheck disable=SC2086  # These are words.
    docker run $podman_options "$@"
}

# Reports one observation as the line `PHASE JSON`.
observe() {
    phase=$1
    shift
    began "$phase"
    # shellcheck disable=SC2086  # These are words.
    (cd / && "$@" python3 /row/observe.py $arguments /usr/local/bin/qwed-mcp </dev/null >/run/seen 2>/run/failed)
    printf '%s %s\n' "$phase" "$(tail -n 1 /run/seen)" >$lines
    sed "s/^/$phase stderr: /" /run/failed >$lines
}

report_failure() { printf 'failed %s: %s\n' "$1" "$(tail -c 2000 /run/row.log | tr '\n' ' ')" >$lines; }

began condition
# shellcheck disable=SC2086  # The commands are words.
if condition >/run/row.log 2>&1; then
    observe before $enter
    if [ "$then" = 1 ]; then
        if apply >/run/row.log 2>&1; then observe after $apply_enter; else report_failure remedy; fi
    fi
else
    report_failure condition
fi
sync
/row/busybox poweroff -f
