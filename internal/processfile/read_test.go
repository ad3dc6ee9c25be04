package processfile

import (
	"encoding/json"
	"testing"
)

func TestTry(t *testing.T) {
	docs, err := Read("shop.yaml", []byte(`namespace: shop
defaults:
  user: shop
  hosts: ["0:10.0.0.*"]
  environment: {A: 1, B: "x"}
processes:
  db:
    start: pg_ctl -D /srv/db -w start
    stop: pg_ctl -D /srv/db -m fast stop
    pid_file: /srv/db/postmaster.pid
    user: postgres
    log_file: /srv/db/log/
  api:
    run: ./api --port 8080
    directory: /srv/api
    environment: {GOMAXPROCS: "2", A: null}
    limits: {memory: 512MiB, cpu: 150%, open_files: 65536}
    ready: {http: "http://127.0.0.1:8080/ready", within: 30s}
    health: {tcp: "127.0.0.1:8080", every: 10s, failures: 3, action: restart}
    restart: {when: on-failure, delay: 1s, max_delay: 5m, never_on: [2, SIGINT]}
    stop_signals: [TERM 10s, KILL]
    reload: {signal: hup}
    after: {db: ready}
  report:
    run: ./report --daily
    directory: /srv/report
    schedule: {cron: "30 3 * * *", time_zone: Asia/Shanghai, missed: run-once}
`))
	out, _ := json.MarshalIndent(docs, "", " ")
	t.Logf("%s %v", out, err)
	_, err = Read("bad.yaml", []byte(`namespace: shop
processes:
  api:
    run: ./api
    enviroment: {A: b}
    umask: 022
    run: x
    restart: {when: never, delay: 10, give_up_after: often}
    limits: {memory: 5 apples}
    stop_signals: [TEM 10s]
    nice: 44
  b:
    start: x
    hosts: []
    after: {c: ready}
    ready: {alive: 1s, tcp: ":80"}
    schedule: {cron: "61 * * * *"}
    restart: {factor: 0.5}
  c:
    hosts: [a]
    run: c
    after: {b: redy}
    config_files: [{path: x, md5: 12}]
    stop_signals: [TERM, KILL]
`))
	t.Logf("%v", err)
}
