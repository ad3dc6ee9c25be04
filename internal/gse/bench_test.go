package gse_test

import (
	"bytes"
	"fmt"
	"testing"

	"drover/internal/gse"
)

// BenchmarkReadOperateMulti reads a body of 1,000 requests, a spec of its own each.
func BenchmarkReadOperateMulti(b *testing.B) {
	var body bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&body,
			`,{"meta":{"namespace":"bench","name":"nginx-%d"},"op_type":0,"agent_id_list":["0:10.0.0.%d"],"spec":{
			"identity":{"proc_name":"nginx","setup_path":"/usr/sbin","pid_path":"/run/nginx-%d.pid","user":"root"},
			"control":{"start_cmd":"/usr/sbin/nginx -c /etc/nginx-%d.conf","stop_cmd":""},
			"alive_monitor_policy":{"auto_type":1,"start_check_secs":1,"stop_check_secs":10,"start_retries":1000000,"start_interval":1,"op_timeout":60}}}`, i, i, i, i)
	}
	text := append([]byte(`{"proc_operate_req":[`), append(body.Bytes()[1:], `]}`...)...)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if ops, err := gse.ReadOperateMulti(text); err != nil || len(ops) != 1000 {
			b.Fatal(len(ops), err)
		}
	}
}
