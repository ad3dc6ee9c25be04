package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// endpoints are all paths of one family each.
func endpoints() []string {
	return []string{
		esbGSE + "register_proc_info/", esbGSE + "update_proc_info/", esbGSE + "unregister_proc_info/",
		esbGSE + "operate_proc_v2/",
		esbGSE + "operate_proc_multi/", esbGSE + "get_proc_operate_result/", esbGSE + "get_proc_operate_result_v2/",
		esbGSE + "get_proc_status/",
		esbGSE + "get_proc_status_v2/", esbGSE + "sync_proc_status/",
		gatewayV2 + "operate_proc_v2", gatewayV2 + "operate_proc_multi", gatewayV2 + "get_proc_operate_result_v2",
		gatewayV2 + "get_proc_status_v2",
		gatewayV2 + "sync_proc_status", gatewayV2 + "update_proc_info",
		esbJob + "operate_process/", esbJob + "manage_proc/", esbJob + "get_proc_result/",
		esbJobV3 + "operate_process/", esbJobV3 + "manage_proc/", esbJobV3 + "get_proc_result/",
	}
}

func TestBodiesThatAreNotJSON(t *testing.T) {
	for name, body := range map[string]string{
		"cut":               `{"meta": {"namespace": "gse", "na`,
		"trailing words":    `{"task_id": "x"} {"task_id": "y"}`,
		"brace alone":       `{`,
		"deep nesting":      `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
		"NUL byte":          "{\"task_id\": \"a\x00b\"}",
		"invalid UTF-8":     "{\"task_id\": \"a\xff\"}",
		"invalid UTF-8 key": "{\"\xc3(\": 1}",
		"single quotes":     `{'task_id': 'x'}`,
		"comment":           `{/* x */}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, path := range endpoints() {
				got := w.post(path, body)
				if strings.HasPrefix(path, gatewayV2) {
					got.refused(t, 400, 1640001)
				} else {
					got.refused(t, 200, 1306000)
				}
			}
		})
	}
}

func TestBodiesOfTheWrongShape(t *testing.T) {
	junk := []string{
		`null`, `[]`, `{}`, `[[]]`, `[null]`, `""`, `"\u0000"`, `"x"`, `-1`, `1e400`,
		`99999999999999999999999`, `0.5`, `true`, `"'; DROP TABLE items;--"`,
	}
	whole := []string{``, `[]`, `null`, `"x"`, `123`, `a=b&%zz`, "\xff\xfe", `{}`, `{"": 1}`, ` ` + exampleOperate(0)}
	const result, page = `{"task_id": "x", "bk_biz_id": 1, "bk_gse_taskid": "x"}`,
		`{"meta": {"namespace": "n"}, "page": {"start": 0, "limit": 10}}`
	valid := map[string]string{
		esbGSE + "register_proc_info/": documentedRegister, esbGSE + "unregister_proc_info/": documentedRegister,
		esbGSE + "operate_proc_v2/": exampleOperate(0), gatewayV2 + "operate_proc_multi": `{"proc_operate_req": [` +
			exampleOperate(2) + `]}`,
		esbGSE + "get_proc_status/": exampleOperate(2), gatewayV2 + "sync_proc_status": page,
		esbGSE + "get_proc_operate_result/": result, esbJobV3 + "get_proc_result/": result,
		esbJob + "operate_process/": documentedOperate, esbJobV3 + "manage_proc/": documentedManage,
	}
	w := newWorld(t)
	w.answer = succeed
	check := func(path, body string) {
		if got := w.post(path, body); got.Status >= 500 || (got.Status != 200 && !strings.HasPrefix(path, gatewayV2)) {
			t.Errorf("%s answers %d to %.200s", path, got.Status, body)
		}
	}
	for _, path := range endpoints() {
		for _, body := range whole {
			check(path, body)
		}
	}
	for path, body := range valid {
		var object any
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			t.Fatal(err)
		}
		for _, mutated := range mutations(object, junk) {
			check(path, mutated)
		}
	}
	if len(w.tasks) < 500 {
		t.Errorf("only %d bodies were taken: the mutations do not reach the fields", len(w.tasks))
	}
	// Whatever was taken must be shown again.
	for id := range w.tasks {
		w.poll(id)
		w.jobPoll(id)
	}
}

// mutations returns the object once for each value in it and each piece of junk in its place.
func mutations(root any, junk []string) (bodies []string) {
	var walk func(v any)
	emit := func(put func(any), old any) {
		for _, j := range junk {
			put(json.RawMessage(j))
			if b, err := json.Marshal(root); err == nil {
				bodies = append(bodies, string(b))
			}
		}
		put(old)
	}
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, old := range v {
				set := func(n any) { v[k] = n }
				emit(set, old)
				walk(old)
			}
		case []any:
			for i, old := range v {
				set := func(n any) { v[i] = n }
				emit(set, old)
				walk(old)
			}
		}
	}
	walk(root)
	return bodies
}

func TestABodyThatIsTooLarge(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string][2]int{
		esbGSE + "operate_proc_v2/": {200, 1306000}, gatewayV2 + "operate_proc_v2": {413, 1641301},
	} {
		body := io.MultiReader(strings.NewReader(`{"a": "`), io.LimitReader(blanks{}, 64<<20))
		r := httptest.NewRequest(http.MethodPost, path, body)
		r.Header.Set("X-Bkapi-Authorization",
			fmt.Sprintf(`{"bk_app_code": %q, "bk_app_secret": %q, "bk_username": "a"}`, appCode, appSecret))
		w.send(r).refused(t, want[0], want[1])
	}
}

func TestAStrangersBodyIsNotRead(t *testing.T) {
	w := newWorld(t)
	r := httptest.NewRequest(http.MethodPost, gatewayV2+"operate_proc_v2", unreadable{t})
	r.Header.Set("X-Bkapi-Authorization", `{"bk_app_code": "nobody", "bk_app_secret": "x", "bk_username": "a"}`)
	w.send(r).refused(t, 400, 1640001)
}

func TestABodyThatBreaksOff(t *testing.T) {
	w := newWorld(t)
	r := httptest.NewRequest(http.MethodPost, gatewayV2+"operate_proc_v2",
		io.MultiReader(strings.NewReader(`{"a`), broken{}))
	w.send(r).refused(t, 400, 1640001)
}

type (
	blanks     struct{}
	broken     struct{}
	unreadable struct{ t *testing.T }
)

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}
