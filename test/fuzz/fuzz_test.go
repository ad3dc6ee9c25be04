package fuzz_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/internal/test/openapi"
	"drover/test/judge"
)

// quick is how long a run lasts that nobody asked for.
const quick = 3 * time.Second

// world is a run against one server.
type world struct {
	t      *testing.T
	url    string
	dir    string // of the processes
	client *http.Client
	random *rand.Rand
	tasks  []task
	sent   map[string]int // by what was done to the bodies, and how they were sent
	failed int
}

// task is a call that was accepted.
type task struct {
	id, call string
	job      bool
}

// TestWire: whatever a call holds and however it is sent, the answer has the form of an answer, and says the same on
// every path; and what was accepted ends.
func TestWire(t *testing.T) {
	length, seed := judge.Choices(t, quick)
	s := harness.Start(t, binaries.drover)
	doc, err := openapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, url: s.URL, dir: harness.Workdir(t), random: rand.New(rand.NewPCG(seed, 0)), sent: map[string]int{},
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
	requests := 0
	for end := time.Now().Add(length); time.Now().Before(end) && w.failed < 20; requests++ {
		w.step(doc)
	}
	for _, task := range w.tasks {
		if w.failed < 20 {
			w.ends(task)
		}
	}
	if status, text := harness.Get(t, w.client, s.URL+"/readyz"); status != http.StatusOK {
		t.Errorf("after it the server is not ready: %d %s", status, text)
	}
	if strings.Contains(s.Log(), "panic") {
		t.Error("there was a panic")
	}
	t.Logf("%d calls, %d of which were accepted tasks: %v", requests, len(w.tasks), w.sent)
	if len(w.tasks) < requests/20 {
		t.Errorf("only %d of %d calls were accepted tasks: nothing was tried", len(w.tasks), requests)
	}
}

// step makes up a call and judges the answer.
func (w *world) step(doc *openapi.Document) {
	c := pick(w.random, calls())
	original := c.body(w)
	body, inert, done := w.mutate(original)
	if long(body) {
		return
	}
	how := choose(w.random)
	for _, name := range append(done, how.name) {
		w.sent[name]++
	}
	method, path, _ := strings.Cut(pick(w.random, c.paths), " ")
	what := fmt.Sprintf("%s %s (%s; %s): %s", method, path, strings.Join(done, ", "), how.name, body)
	a := how.send(w, method, path, body)
	e, fault := faultOf(path, a, how.refused)
	if fault != "" {
		w.fail(c.name, what, fault+": "+a.text)
		return
	}
	if how.name == "plain" {
		differences, _ := doc.Check(openapi.Exchange{
			Method: method, Path: path, Status: a.status,
			Reply: []byte(a.text),
		})
		for _, d := range differences {
			w.fail(c.name, what, d)
		}
	}
	if *e.Result && !c.reads {
		w.accepted(c, what, e)
		return
	}
	if how.lone {
		return
	}
	other := pick(w.random, c.paths)
	w.compare(c, what, how, [2]string{method + " " + path, body}, [2]string{other, body})
	if inert && c.reads && json.Valid([]byte(body)) && how.name != "form" {
		w.compare(c, what, how, [2]string{method + " " + path, body}, [2]string{method + " " + path, original})
	}
}

// compare sends two calls that mean the same, and the first once more: unless its own answer has changed, both must
// have one.
func (w *world) compare(c call, what string, how mode, one, two [2]string) {
	ask := func(call [2]string) (string, bool) {
		method, path, _ := strings.Cut(call[0], " ")
		e, fault := faultOf(path, how.send(w, method, path, call[1]), how.refused)
		if fault != "" {
			w.fail(c.name, what, fault+", by "+call[0])
			return "", false
		}
		if *e.Result && !c.reads {
			w.accepted(c, what, e)
		}
		return same(path, e), true
	}
	for range 5 {
		first, ok := ask(one)
		if !ok {
			return
		}
		second, ok := ask(two)
		if !ok || first == second {
			return
		}
		if third, ok := ask(one); !ok || third == first {
			w.fail(c.name, what, fmt.Sprintf("it is answered\n\t%s\nand as %s %s\n\t%s", first, two[0], two[1], second))
			return
		}
	}
}

// mutate changes a body, and says what was done; inert says that a server may not see it.
func (w *world) mutate(body string) (mutated string, inert bool, done []string) {
	inert = true
	root := parse(body)
	for range w.random.IntN(4) {
		m := pick(w.random, mutations())
		m.change(w.random, root)
		inert = inert && m.inert
		done = append(done, m.name)
	}
	mutated = root.String()
	if w.random.IntN(12) == 0 {
		return garble(w.random, mutated), false, append(done, "bytes")
	}
	return mutated, inert, done
}

// accepted takes the answer of a call that did something.
func (w *world) accepted(c call, what string, e envelope) {
	switch c.name {
	case "register_proc_info", "update_proc_info", "unregister_proc_info", "set_process_group_info":
		if _, _, fault := entriesOf(e.Data, false, true); fault != "" {
			w.fail(c.name, what, fault)
		}
		return
	case "upgrade_to_agent_id":
		return
	}
	var data struct {
		Task    string `json:"task_id"`
		JobTask string `json:"bk_gse_taskid"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil || (data.Task == "") == (data.JobTask == "") ||
		c.job != (data.Task == "") {
		w.fail(c.name, what, fmt.Sprintf("accepted, with %s", e.Data))
		return
	}
	t := task{id: data.Task + data.JobTask, call: c.name, job: c.job}
	if _, _, fault := w.poll(t); fault != "" {
		w.fail(c.name, what, fault)
	}
	w.tasks = append(w.tasks, t)
}

// recent is a task of one of the dialects, now and then of the other, or one that nobody knows.
func (w *world) recent(job bool) string {
	for range 10 {
		if len(w.tasks) == 0 {
			break
		}
		t := w.tasks[max(0, len(w.tasks)-1-w.random.IntN(20))]
		if t.job == job || w.random.IntN(10) == 0 {
			return t.id
		}
	}
	return "GSETASK:S:none"
}

func (w *world) fail(call, what, fault string) {
	w.t.Helper()
	w.failed++
	w.t.Errorf("%s\n%.4000s\n%.2000s", call, what, fault)
}
