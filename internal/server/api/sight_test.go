package api_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestTasksOfOthers: a person sees the tasks and rollouts of others, if the person may query each of their processes on
// its host. Everything else is as if it were not there, and only who began a task cancels it. An app sees its own.
func TestTasksOfOthers(t *testing.T) {
	r := newRig(t)
	r.app("admin")
	for who, rights := range map[string][]string{
		"person:bea": {"operator on a"}, "person:carl": {"viewer on a at 0:10.0.0.1"}, "person:dora": {"viewer on *"},
		"person:eve": {"restart on a"}, "person:finn": {"viewer on b"}, "app": {"operator on *"},
		"person:both": {"viewer on a at 0:10.0.0.1", "viewer on b"},
	} {
		r.app(who, rights...)
	}
	r.observe("a/x@"+web+" running", "a/x@"+plain+" running", "b/x@"+web+" running")
	submit := func(more map[string]any, targets ...string) string {
		list := []any{}
		for _, target := range targets {
			name, host, _ := strings.Cut(target, "@")
			namespace, name, _ := strings.Cut(name, "/")
			list = append(list, map[string]any{"namespace": namespace, "name": name, "hosts": []string{host}})
		}
		body := map[string]any{"op": "restart", "targets": list}
		maps.Copy(body, more)
		return r.want(202, r.call("admin", "POST", "/tasks", body)).body["id"].(string)
	}
	ids := map[string]string{
		submit(nil, "a/x@web-1"):                   "web",
		submit(nil, "a/x@web-1", "a/x@0:10.0.0.2"): "both hosts",
		submit(nil, "a/x@web-1", "b/x@web-1"):      "both namespaces",
		submit(nil, "b/x@web-1"):                   "b",
	}
	plan := map[string]any{"rollout": map[string]any{"batch": 1}}
	rolls := map[string]string{
		submit(plan, "a/x@web-1", "a/x@0:10.0.0.2"): "ro both hosts",
		submit(plan, "b/x@web-1"):                   "ro b",
	}
	for who, sees := range map[string][]string{
		"person:bea":  {"both hosts", "ro both hosts", "web"},
		"person:carl": {"web"},
		"person:dora": {"b", "both hosts", "both namespaces", "ro b", "ro both hosts", "web"},
		"person:eve":  {},
		"person:finn": {"b", "ro b"},
		"person:both": {"b", "both namespaces", "ro b", "web"},
		"app":         {},
	} {
		r.user = strings.TrimPrefix(who, "person:")
		if who == "app" {
			r.user = ""
		}
		listed := []string{}
		for path, names := range map[string]map[string]string{"/tasks": ids, "/rollouts": rolls} {
			for cursor := ""; ; {
				a := r.want(200, r.call(who, "GET", path+"?limit=1"+cursor, nil))
				for _, id := range a.items("id") {
					listed = append(listed, names[id])
				}
				if a.cursor() == "" {
					break
				}
				cursor = "&cursor=" + a.cursor()
			}
			for id, name := range names {
				status := 404
				if slices.Contains(sees, name) || who == "person:eve" && name == "ro both hosts" { // eve may approve it
					status = 200
				}
				r.want(status, r.call(who, "GET", path+"/"+id, nil))
				if path == "/tasks" {
					r.want(status, r.call(who, "GET", path+"/"+id+"/results", nil))
					r.want(map[int]int{200: 403, 404: 404}[status], r.call(who, "POST", path+"/"+id+"/cancel", nil))
				}
			}
		}
		slices.Sort(listed)
		same(t, "what "+who+" sees", fmt.Sprint(sees), fmt.Sprint(listed))
	}
	r.user = "bea"
	for query, want := range map[string]string{
		"?namespace=a": "2", "?namespace=b": "0", "?op=stop": "0", "?op=restart&user=": "2", "?user=nobody": "0",
		"?outcome=failed": "0", "?since=2099-01-01T00:00:00Z": "0", "?since=2001-01-01T00:00:00Z": "2", "?app=app": "0",
	} {
		same(t, query, want, fmt.Sprint(len(r.want(200, r.call("person:bea", "GET", "/tasks"+query, nil)).items("id"))))
	}
	r.refused(r.call("person:bea", "GET", "/tasks?op=none", nil), 422, "op")
	same(t, "rollouts of b", 0, len(r.want(200, r.call("person:bea", "GET", "/rollouts?namespace=b", nil)).items("id")))
}
