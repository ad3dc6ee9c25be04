package apiv1_test

import (
	"fmt"
	"strings"
	"testing"
)

// standing shows the selections in force in namespace a.
func (r *rig) standing() string {
	r.t.Helper()
	list, err := r.store.ListSelections(r.t.Context(), "a")
	r.must(err)
	var all []string
	for _, s := range list {
		all = append(all, fmt.Sprintf("%s %s %s", s.Process.Name, s.Selector, s.App))
	}
	return strings.Join(all, "; ")
}

// planned shows a plan: action, process, operation and fields.
func planned(a answer) string {
	var all []string
	for _, item := range a.body["changes"].([]any) {
		c := item.(map[string]any)
		text := fmt.Sprint(c["action"], " ", c["process"])
		if c["op"] != nil {
			text += fmt.Sprint(" ", c["op"])
		}
		if fields, ok := c["fields"].([]any); ok {
			for _, f := range fields {
				f := f.(map[string]any)
				text += fmt.Sprint(" ", f["path"], " ", f["from"], ">", f["to"])
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// TestSelectionsOfAFile: the server keeps the selections of a file, shows them, and drops them with the next file that
// has none.
func TestSelectionsOfAFile(t *testing.T) {
	r := labelled(t)
	r.app("reader", "query on a")
	file := func(hosts string) string {
		return `{"namespace":"a","processes":{"x":{` + daemon + `,"hosts":` + hosts + `}}}`
	}
	selected := file(`{"select":"role == web,os"}`)
	same(t, "plan", "create x start",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", selected))))
	same(t, "after a plan", "", r.standing())
	r.want(202, r.call("admin", "PUT", "/namespaces/a", selected))
	same(t, "after the apply", "x role=web,os admin", r.standing())
	r.settle()
	r.place("x", web, "running", `{`+daemon+`}`)

	got := r.want(200, r.call("admin", "GET", "/namespaces/a", nil))
	x := got.body["processes"].(map[string]any)["x"].(map[string]any)
	same(t, "hosts", fmt.Sprint(map[string]any{"select": "role=web,os"}), fmt.Sprint(x["hosts"]))
	same(t, "the same again", "none x", planned(r.want(200, r.call("admin", "PUT", "/namespaces/a", selected))))

	listed := file(`["web-1"]`)
	same(t, "a list instead", "change x hosts.select role=web,os><nil>",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a?dry_run=true", listed))))
	r.refused(r.call("reader", "PUT", "/namespaces/a", listed), 403, "")
	same(t, "after a plan and a caller without the right", "x role=web,os admin",
		r.standing())
	r.want(200, r.call("admin", "PUT", "/namespaces/a", listed))
	same(t, "after the list", "", r.standing())
	same(t, "a selection again", "change x hosts.select <nil>>role=web,rack",
		planned(r.want(200, r.call("admin", "PUT", "/namespaces/a", file(`{"select":"role=web,rack"}`)))))
	r.want(202, r.call("admin", "PUT", "/namespaces/a?prune=true", `{"namespace":"a","processes":{"y":{`+daemon+
		`,"hosts":["web-1"]}}}`))
	same(t, "after a file that prunes", "", r.standing())
}
