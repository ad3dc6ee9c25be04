#!/bin/sh
# svc DIRECTORY start|stop|restart|status: a daemon of the host on which it is called, and its pid in a file.
set -eu
export LC_ALL=C # whatever locale the tool gives: a program loads the files of another one
dir=$1 do=$2
# shellcheck disable=SC2086 # four words
set -- ${SSH_CONNECTION:-from port ${DROVER_HOST#*:} port}
pid=$dir/$3.pid

stop() {
	[ -e "$pid" ] || return 0
	read -r old <"$pid"
	kill "$old" 2>/dev/null || true
	while kill -0 "$old" 2>/dev/null; do sleep 0.005; done
	rm "$pid"
}
start() {
	setsid sleep 1000000 </dev/null >/dev/null 2>&1 &
	echo $! >"$pid.new"
	mv "$pid.new" "$pid"
}
case $do in
start) start ;;
stop) stop ;;
restart) stop && start && cat "$pid" ;;
status)
	read -r old <"$pid"
	kill -0 "$old"
	echo "$old"
	;;
esac
