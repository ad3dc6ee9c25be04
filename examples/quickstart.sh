#!/bin/sh
# Takes a real daemon through its whole life with drover: nginx where it is installed, else the small daemon in examples/tickd.
#
#   make run                                               # in one terminal; it prints the app's secret
#   DROVER_APP_SECRET=... examples/quickstart.sh           # in another
#
# Also heeded: DROVER_SERVER (http://127.0.0.1:7350), DROVER_APP_CODE (drover-admin), DROVER_AGENT (0:127.0.0.1).
set -eu

server=${DROVER_SERVER:-http://127.0.0.1:7350}
code=${DROVER_APP_CODE:-drover-admin}
secret=${DROVER_APP_SECRET:?put the secret that 'make run' has printed into DROVER_APP_SECRET}
agent=${DROVER_AGENT:-0:127.0.0.1}
cloud=${agent%%:*} ip=${agent#*:}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
user=$(id -un)

# --- the daemon -------------------------------------------------------------------------------------------------------
if [ -z "${QUICKSTART_TICKD:-}" ] && nginx=$(PATH=$PATH:/usr/sbin command -v nginx); then
	listen=${QUICKSTART_LISTEN:-127.0.0.1:18080}
	cat >"$work/nginx.conf" <<-CONF
		pid $work/daemon.pid;
		error_log $work/error.log;
		events {}
		http {
		    access_log off;
		    client_body_temp_path $work; proxy_temp_path $work; fastcgi_temp_path $work; uwsgi_temp_path $work; scgi_temp_path $work;
		    server { listen $listen; }
		}
	CONF
	proc=nginx
	start="$nginx -c $work/nginx.conf" stop="$nginx -c $work/nginx.conf -s quit" reload="$nginx -c $work/nginx.conf -s reload"
else
	(cd "$here/.." && go build -o "$work/tickd" ./examples/tickd)
	proc=tickd
	start="./tickd start -dir $work" stop="./tickd stop -dir $work" reload="./tickd reload -dir $work"
fi
pidfile=$work/daemon.pid
[ "$proc" = nginx ] || pidfile=$work/tickd.pid

meta='"meta":{"namespace":"quickstart","name":"'$proc'_1"}'
spec='"spec":{
  "identity":{"proc_name":"'$proc'","setup_path":"'$work'","pid_path":"'$pidfile'","user":"'$user'"},
  "control":{"start_cmd":"'$start'","stop_cmd":"'$stop'","reload_cmd":"'$reload'"},
  "resource":{"cpu":0,"mem":0},
  "POLICY":{"auto_type":1,"start_check_secs":1,"stop_check_secs":5,"start_retries":4,"start_interval":1}}'

# --- talking to drover ------------------------------------------------------------------------------------------------
call() { # call ENDPOINT BODY
	curl -sS "$server/api/c/compapi/v2/gse/$1/" \
		-H "X-Bkapi-Authorization: {\"bk_app_code\":\"$code\",\"bk_app_secret\":\"$secret\",\"bk_username\":\"$user\"}" -d "$2"
}
field() { # field NAME: the first number or string of that name, backslashes left out
	tr -d '\\' | sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' | head -n 1
}
error_code=''
operate() { # operate OP_TYPE: sends the operation and polls its task to the end; the last reply is left in $reply
	body="{$meta,\"op_type\":$1,\"agent_id_list\":[\"$agent\"],$(echo "$spec" | sed s/POLICY/alive_monitor_policy/)}"
	task=$(call operate_proc_v2 "$body" | field task_id)
	[ -n "$task" ] || { echo "drover refused the call: $(call operate_proc_v2 "$body")" >&2; exit 1; }
	printf '  task %s:' "$task"
	seen=''
	while :; do
		reply=$(call get_proc_operate_result_v2 "{\"task_id\":\"$task\"}")
		error_code=$(echo "$reply" | field error_code)
		[ "$error_code" = "$seen" ] || printf ' %s' "$error_code"
		seen=$error_code
		[ "$error_code" = 115 ] || break
		sleep 0.2
	done
	echo "  ($(echo "$reply" | field error_msg))"
}
expect() { # expect CODE
	[ "$error_code" = "$1" ] || { echo "expected error_code $1: $reply" >&2; exit 1; }
}
running() { # the pid that drover sees
	operate 2 >/dev/null
	echo "$reply" | field pid
}
cleanup() {
	call unregister_proc_info "{$meta,\"hosts\":[{\"ip\":\"$ip\",\"bk_cloud_id\":$cloud,\"bk_supplier_id\":0}]}" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap cleanup EXIT

# --- the life of a daemon ---------------------------------------------------------------------------------------------
curl -sS -o /dev/null "$server/healthz" || { echo "no drover at $server: start it with 'make run', or set DROVER_SERVER" >&2; exit 1; }

echo "1. register $proc"
reply=$(call register_proc_info "{$meta,\"hosts\":[{\"ip\":\"$ip\",\"bk_cloud_id\":$cloud,\"bk_supplier_id\":0}],$(echo "$spec" | sed s/POLICY/monitor_policy/)}")
error_code=$(echo "$reply" | field error_code)
echo "  error_code $error_code"
expect 0

echo "2. start it (op_type 0): 115 while it is handled, then 0"
operate 0
expect 0
first=$(running)
echo "  pid $first"

echo "3. kill -9 $first: it is hosted, so it is launched again"
case $first in '' | *[!0-9]* | 0 | 1) echo "drover shows no pid: $reply" >&2; exit 1 ;; esac
kill -9 "$first"
second=$first
tries=0
while [ "$second" = "$first" ] || [ "$second" = -1 ]; do
	tries=$((tries + 1))
	[ $tries -le 100 ] || { echo "it was not launched again: $reply" >&2; exit 1; }
	sleep 0.1
	second=$(running)
done
echo "  pid $second"

echo "4. reload it (op_type 8): the pid stays"
operate 8
expect 0
[ "$(running)" = "$second" ]
echo "  pid $second"

echo "5. stop it (op_type 1)"
operate 1
expect 0

echo "6. stop it again: 829, it is not running"
operate 1
expect 829
echo "done"
