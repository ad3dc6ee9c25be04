package openapi_test

import (
	"strings"
	"testing"

	"drover/internal/test/openapi"
)

func TestCheckFindsDifferences(t *testing.T) {
	d, err := openapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	const (
		poll    = "/api/c/compapi/v2/gse/get_proc_operate_result_v2/"
		good    = `{"task_id": "x"}`
		reply   = `{"result": true, "code": 0, "message": "success", "data": {"k": {"error_code": 115, "error_msg": "handling", "content": ""}}, "request_id": "r"}`
		refusal = `{"result": false, "code": 1000101, "message": "no", "data": null, "request_id": "r"}`
		gone    = `{"result": false, "data": null, "message": "The content does not exist"}`
	)
	for _, tt := range []struct {
		name, path, request string
		status              int
		reply               string
		want                string // part of the one difference
	}{
		{"as described", poll, good, 200, reply, ""},
		{"without slash", strings.TrimSuffix(poll, "/"), good, 200, reply, ""},
		{"with slashes and a query", "/" + poll + "/?a=b", good, 200, reply, ""},
		{"refused", poll, `{"task_id": 7}`, 200, refusal, ""},
		{"not found", poll, good, 404, gone, ""},
		{
			"a gateway's range", "/api/v2/proc/operate_proc_v2", good, 413,
			`{"result": false, "code": 1, "code_name": "BODY_TOO_LARGE", "message": "m", "data": null, "request_id": "r"}`, "",
		},
		{"a request that lacks a field", poll, `{}`, 200, reply, "request: "},
		{
			"a reply that lacks a field", poll, good, 200, strings.Replace(reply, `"request_id": "r"`, `"x": 1`, 1),
			"reply: ",
		},
		{
			"content that is no string", poll, good, 200, strings.Replace(reply, `"content": ""`, `"content": {}`, 1),
			"reply: ",
		},
		{"a status that is not described", poll, good, 500, reply, "HTTP 500 is not described"},
		{"no JSON", poll, good, 200, `{`, "reply: no JSON"},
	} {
		got, known := d.Check(openapi.Exchange{
			Method: "POST", Path: tt.path, Request: []byte(tt.request),
			Status: tt.status, Reply: []byte(tt.reply),
		})
		switch {
		case !known:
			t.Errorf("%s: the path is not known", tt.name)
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s: %q", tt.name, got)
		case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
			t.Errorf("%s: %q, want one with %q", tt.name, got, tt.want)
		}
	}
	if _, known := d.Check(openapi.Exchange{Method: "POST", Path: "/elsewhere"}); known {
		t.Error("a path that is not described is known")
	}
}
