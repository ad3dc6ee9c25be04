package fuzz_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"drover/internal/test/harness"
)

// envelope is an answer as all of them are.
type envelope struct {
	Result  *bool           `json:"result"`
	Code    *int            `json:"code"`
	Message *string         `json:"message"`
	Data    json.RawMessage `json:"data"`
	Request *string         `json:"request_id"`
}

// faultOf says what is wrong with an answer by itself; empty where nothing is.
func faultOf(path string, a answer, refused bool) (envelope, string) {
	var e envelope
	switch err := json.Unmarshal([]byte(a.text), &e); {
	case a.err:
		return e, "there is no answer: " + a.text
	case a.status >= 500 || !ofGateway(path) && a.status != 200:
		return e, fmt.Sprintf("HTTP %d", a.status)
	case err != nil:
		return e, "it is no JSON object: " + err.Error()
	case e.Result == nil || e.Code == nil || e.Message == nil || e.Data == nil || e.Request == nil:
		return e, "the envelope is not whole"
	case *e.Result != (*e.Code == 0):
		return e, "result and code disagree"
	case !*e.Result && (string(e.Data) != "null" || *e.Message == ""):
		return e, "a refusal has data, or no message"
	case *e.Result && refused:
		return e, "it is taken"
	}
	return e, ""
}

// same returns what two answers to one call have in common, whatever path it took: all but what changes by itself, and
// how the families of paths tell a refusal.
func same(path string, e envelope) string {
	code, message := *e.Code, *e.Message
	if inner, ok := strings.CutPrefix(message, "Parameters error [reason="); ok && ofGateway(path) {
		message, _ = strconv.Unquote(strings.TrimSuffix(inner, "]"))
	}
	switch {
	case code == 1640001, code == 1641301, strings.HasPrefix(message, "request header"):
		code = 1306000
	case code == 1640301:
		code = 1306403
	case code/100 == 16429:
		code = 1306429
	}
	var data any
	_ = json.Unmarshal(e.Data, &data) // it was read with the envelope
	return fmt.Sprint(code, " ", message, " ", still(data))
}

// still is data without what changes by itself.
func still(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = still(v[i])
		}
	case map[string]any:
		for name := range v {
			switch name {
			case "flag", "status", "isauto", "message", "pid", "version", "register_time", "last_start_time",
				"report_time", "cpu_usage", "mem_usage",
				"last_work_time", "conn_cycle_time", "error_code", "error_msg", "content", "usage":
				v[name] = "…"
			default:
				v[name] = still(v[name])
			}
		}
	}
	return v
}

// entry is the result under one key.
type entry struct {
	Code    *int            `json:"error_code"`
	Msg     *string         `json:"error_msg"`
	Content json.RawMessage `json:"content"`
}

// entriesOf reads a map of results, and says what is wrong with one of them; open are those at 115.
func entriesOf(data json.RawMessage, job, registration bool) (keys []string, open int, fault string) {
	var all map[string]entry
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		return nil, 0, fmt.Sprintf("the results are %.200s", data)
	}
	for key, e := range all {
		if e.Code == nil || e.Msg == nil || e.Content == nil {
			return nil, 0, key + " is not whole"
		}
		if *e.Code == 115 {
			open++
		}
		if text := wrongEntry(e, job, registration); text != "" {
			return nil, 0, fmt.Sprintf("%s: %s: %d %s %s", key, text, *e.Code, *e.Msg, e.Content)
		}
	}
	return slices.Sorted(maps.Keys(all)), open, ""
}

func wrongEntry(e entry, job, registration bool) string {
	switch {
	case !slices.Contains([]int{0, 115, 117, 828, 829, 832, 836, 850, 65535}, *e.Code):
		return "there is no such code"
	case *e.Msg == "" || (*e.Code == 0) != (*e.Msg == "success"):
		return "code and text disagree"
	case *e.Code == 115 || registration:
		if string(e.Content) != `""` {
			return "it has content"
		}
		return ""
	}
	document := e.Content
	if !job {
		var text string
		if json.Unmarshal(e.Content, &text) != nil {
			return "content is no text"
		}
		document = json.RawMessage(text)
	}
	var content struct {
		Value []struct {
			Result string `json:"result"`
			IsAuto *bool  `json:"isAuto"`
		} `json:"value"`
		Process []struct {
			Instance []struct {
				PID    int   `json:"pid"`
				IsAuto *bool `json:"isAuto"`
			} `json:"instance"`
		} `json:"process"`
	}
	if err := json.Unmarshal(document, &content); err != nil {
		return err.Error()
	}
	switch {
	case len(content.Value) == 1 && content.Process == nil:
		if v := content.Value[0]; v.Result != *e.Msg || v.IsAuto == nil {
			return "content says something else"
		}
	case len(content.Process) == 1 && content.Value == nil && len(content.Process[0].Instance) == 1:
		if i := content.Process[0].Instance[0]; i.PID == 0 || i.IsAuto == nil {
			return "there is no pid, or no flag"
		}
	default:
		return "content has not one value, or one process with one instance"
	}
	return ""
}

// poll asks for the results of a task by another path each time.
func (w *world) poll(t task) (keys []string, open int, fault string) {
	path, body := "/api/v2/proc/get_proc_operate_result_v2", fmt.Sprintf(`{"task_id":%q}`, t.id)
	if t.job {
		path, body = "/api/c/compapi/v2/job/get_proc_result/", fmt.Sprintf(`{"bk_biz_id":1,"bk_gse_taskid":%q}`, t.id)
	}
	e, fault := faultOf(path, plainly().send(w, "POST", path, body), false)
	if fault != "" || !*e.Result {
		return nil, 0, fmt.Sprintf("the poll is answered %s %.300s", fault, e.Data)
	}
	data := e.Data
	if t.job {
		var inner struct {
			Result json.RawMessage `json:"result"`
		}
		_ = json.Unmarshal(data, &inner) // entriesOf tells if there is none
		data = inner.Result
	}
	return entriesOf(data, t.job, false)
}

// ends fails the test unless the task ends, with the same keys in each poll.
func (w *world) ends(t task) {
	var first []string
	harness.Eventually(w.t, "task "+t.id+" of "+t.call+" to end", func() bool {
		keys, open, fault := w.poll(t)
		if fault != "" {
			w.fail(t.call, "a poll", fault)
			return true
		}
		if first == nil {
			first = keys
		}
		if !slices.Equal(first, keys) {
			w.fail(t.call, "a poll", fmt.Sprintf("its keys were %q and are %q", first, keys))
		}
		return open == 0
	})
}
