package fuzz_test

import (
	"fmt"
	"strings"
)

// call is one of the calls: its paths, all of which mean the same, and what it is sent.
type call struct {
	name string
	// paths have their methods before them.
	paths []string
	// job is whether its dialect is JOB's; reads, that it changes nothing.
	job, reads bool
	// body makes a body.
	body func(w *world) string
}

// gse lists the paths of a GSE call; area is the part of the gateway's paths, and direct are the backend's own.
func gse(name, area string, direct ...string) []string {
	paths := []string{
		"POST /api/c/compapi/v2/gse/" + name + "/", "POST /api/c/compapi/v2/gse/" + name,
		"POST //component//compapi/v2/gse//" + name + "//",
		"POST /prefix/gse/" + name + "/",
	}
	if area != "" {
		paths = append(paths, "POST /api/v2/"+area+"/"+name, "POST /api/c/compapi/v2/gse/api/v2/"+area+"/"+name+"/")
	}
	if name != "operate_proc" && name != "get_agent_status" { // which JOB has too
		paths = append(paths, "POST /any/root/"+name+"/")
	}
	return append(paths, direct...)
}

func job(name string) []string {
	return []string{
		"POST /api/c/compapi/v2/job/" + name + "/", "POST /api/c/compapi/v2/jobv3/" + name, "POST /esb/api/v2/" + name,
		"POST /esb/api/v3/" + name + "/",
		"POST /api/job/v2/job-execute/" + name + "/", "POST /prefix/job/" + name,
	}
}

// calls are all that the server has.
func calls() []call {
	const proc, cluster = "proc", "cluster"
	register := func(w *world) string { return w.operate(0, w.spec("monitor_policy")) }
	status := func(w *world) string { return w.operate(-1, "") }
	hosts := func(w *world) string { return `{` + w.targets() + `}` }
	groups := func(w *world) string {
		return `{"meta":{"namespace":"groups"},` + w.targets() +
			`,"spec":{"process_group":[{"id":"g","resource":{"cpu_pool_limit":90,"mem_pool_limit":90,"cpu_pool_weight":0,"mem_pool_weight":1}}]}}`
	}
	result := func(w *world) string { return fmt.Sprintf(`{"task_id":%q}`, w.recent(false)) }
	return []call{
		{
			name: "register_proc_info", paths: gse("register_proc_info", proc, "POST /procapi/v1/proc/procinfo"),
			body: register,
		},
		{
			name: "update_proc_info", paths: gse("update_proc_info", proc, "PUT /procapi/v1/proc/procinfo"),
			body: register,
		},
		{
			name: "unregister_proc_info", paths: gse("unregister_proc_info", proc, "DELETE /procapi/v1/proc/procinfo"),
			body: register,
		},
		{
			name: "operate_proc", paths: gse("operate_proc", proc, "POST /procapi/v1/proc/operate"),
			body: func(w *world) string { return w.operate(w.op(), "") },
		},
		{
			name: "operate_proc_v2", paths: gse("operate_proc_v2", proc, "POST /procapi/v2/proc/operate"),
			body: func(w *world) string { return w.operate(w.op(), w.spec("alive_monitor_policy")) },
		},
		{
			name: "operate_proc_multi", paths: gse("operate_proc_multi", proc, "POST /procapi/v2/proc/multioperate"),
			body: func(w *world) string {
				return `{"proc_operate_req":[` + w.operate(w.op(), w.spec("alive_monitor_policy")) + "," +
					w.operate(2, "") + "," + w.operate(w.op(), w.spec("monitor_policy")) + `]}`
			},
		},
		{
			name: "get_proc_operate_result", reads: true,
			paths: gse("get_proc_operate_result", proc, "GET /procapi/v1/proc/operate"), body: result,
		},
		{name: "get_proc_operate_result_v2", reads: true, paths: gse("get_proc_operate_result_v2", proc,
			"GET /procapi/v2/proc/operate"), body: result},
		{name: "get_proc_status", reads: true, paths: gse("get_proc_status", proc, "GET /procapi/v1/proc/status",
			"POST /procapi/v1/proc/status"), body: status},
		{name: "get_proc_status_v2", reads: true, paths: gse("get_proc_status_v2", proc, "GET /procapi/v2/proc/status",
			"POST /procapi/v2/proc/status"), body: status},
		{name: "sync_proc_status", reads: true, paths: gse("sync_proc_status", proc, "GET /procapi/v1/proc/syncstatus",
			"POST /procapi/v1/proc/syncstatus"), body: func(*world) string {
			return `{"meta":{"namespace":"fuzz"},"page":{"start":0,"limit":100,"return_total":true}}`
		}},
		{
			name: "set_process_group_info", paths: gse("set_process_group_info", proc, "POST /procapi/v1/proc/groupinfo"),
			body: groups,
		},
		{
			name: "get_process_group_info", reads: true,
			paths: gse("get_process_group_info", proc, "GET /procapi/v1/proc/groupinfo"), body: groups,
		},
		{name: "upgrade_to_agent_id", paths: gse("upgrade_to_agent_id", proc), body: func(*world) string {
			return `{"hosts":[{"ip":"127.0.0.1","bk_cloud_id":0,"bk_agent_id":"020000000242010a00002f17521298676503"}]}`
		}},
		{name: "list_agent_state", reads: true, paths: gse("list_agent_state", cluster), body: hosts},
		{name: "list_agent_info", reads: true, paths: gse("list_agent_info", cluster), body: hosts},
		{name: "get_agent_status", reads: true, paths: gse("get_agent_status", ""), body: hosts},
		{name: "get_agent_info", reads: true, paths: gse("get_agent_info", ""), body: hosts},
		{name: "operate_process", job: true, paths: job("operate_process"), body: func(w *world) string {
			return w.process(w.op())
		}},
		{name: "operate_proc", job: true, paths: job("operate_proc"), body: func(w *world) string {
			// Its key is made of the name, and its check takes 5 s.
			return strings.Replace(w.process(w.op()), `"proc_name":"sleep"`,
				fmt.Sprintf(`"proc_name":"sleep%d"`, w.random.IntN(names)), 1)
		}},
		{name: "manage_proc", job: true, paths: job("manage_proc"), body: func(w *world) string {
			return w.process(1 + w.random.IntN(2))
		}},
		{name: "get_proc_result", job: true, reads: true, paths: job("get_proc_result"), body: func(w *world) string {
			return fmt.Sprintf(`{"bk_biz_id":1,"bk_gse_taskid":%q}`, w.recent(true))
		}},
		{name: "get_agent_status", job: true, reads: true, paths: job("get_agent_status"), body: func(*world) string {
			return `{"bk_biz_id":1,"ip_list":[{"ip":"127.0.0.1","bk_cloud_id":0},{"ip":"9.9.9.9","bk_cloud_id":3}]}`
		}},
	}
}

// names are how many processes there are: enough that few wait for each other.
const names = 100

func (w *world) op() int {
	ops := []int{0, 0, 1, 2, 2, 3, 4, 7, 8, 9, 5}
	return ops[w.random.IntN(len(ops))]
}

// targets name the host, in one of its spellings, and now and then another one.
func (w *world) targets() string {
	hosts := `"hosts":[{"ip":"127.0.0.1","bk_cloud_id":0,"bk_supplier_id":0}]`
	lists := []string{
		hosts, `"agent_id_list":["0:127.0.0.1"]`, `"agent_id_list":["0:127.0.0.1","1:10.1.1.1","nobody"]`,
		`"agent_id_list":null,` + hosts,
	}
	return lists[w.random.IntN(len(lists))]
}

// operate is the body of a GSE operation; a negative op is none.
func (w *world) operate(op int, spec string) string {
	body := fmt.Sprintf(`{"meta":{"namespace":"fuzz","name":"p%d","labels":{"n":1}},%s`, w.random.IntN(names),
		w.targets())
	if op >= 0 {
		body += fmt.Sprintf(`,"op_type":%d`, op)
	}
	if spec != "" {
		body += `,"spec":` + spec
	}
	return body + "}"
}

// spec starts something that ends by itself, and is told apart by its pid file.
func (w *world) spec(policy string) string {
	return fmt.Sprintf(
		`{"identity":{"index_key":"","proc_name":"sleep","setup_path":%[1]q,"pid_path":"%[1]s/%[2]d.pid","config_path":"","log_path":"","user":"root"},
		"control":{"start_cmd":%[3]q,"stop_cmd":"","restart_cmd":"","reload_cmd":"true","kill_cmd":"","version_cmd":"echo 1.0","health_cmd":"echo ok"},
		"resource":{"cpu":90,"mem":90,"fd":0,"disk":0,"net":0},%[4]q:{"auto_type":%[5]d,"start_check_secs":1,"stop_check_secs":1,"start_retries":1,"start_interval":1,"crontab_rule":"","op_timeout":2},
		"warn_report_policy":{"report_id":0},"configmap":[{"path":"","md5":""}]}`,
		w.dir, w.random.IntN(names), startCommand(fmt.Sprint(w.random.IntN(names))), policy, 1+w.random.IntN(2))
}

func startCommand(file string) string {
	return "sleep 20 >/dev/null 2>&1 & echo $! >" + file + ".pid"
}

// process is the body of a JOB operation.
func (w *world) process(op int) string {
	n := w.random.IntN(names)
	return fmt.Sprintf(
		`{"bk_biz_id":1,"op_type":%[1]d,"process_infos":[{"setup_path":%[2]q,"proc_name":"sleep","pid_path":"%[2]s/j%[3]d.pid","proc_owner":"a","contact":"a","account":"root",
		"value_key":"j%[3]d","func_id":"","instance_id":"","type":1,"cycle_time":0,"instance_num":1,"start_cmd":%[4]q,"stop_cmd":"","start_check_begin_time":1,"start_check_end_time":1,"op_timeout":2,
		"cpu_lmt":90,"mem_lmt":90,"ip_list":[{"ip":"127.0.0.1","bk_cloud_id":0}]}]}`, op, w.dir, n, startCommand(fmt.Sprintf("j%d", n)))
}

// ofGateway reports whether the refusals of a path have an HTTP status of their own.
func ofGateway(path string) bool {
	return strings.HasPrefix(path, "/api/v2/") || strings.HasPrefix(path, "/any/")
}
