package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// How long a case that says "eventually" is repeated, and how often.
const (
	patience = 30 * time.Second
	again    = 50 * time.Millisecond
)

// Client carries a request to the server; *http.Client is one.
type Client interface {
	Do(r *http.Request) (*http.Response, error)
}

// Player plays cases, each once.
type Player struct {
	client Client
	url    string
	cases  map[string]Case
	holes  map[string]string
	played map[string]any // the answers' bodies
}

// NewPlayer returns a player of cases that sends to the server at url. The keys of holes are written as in the files,
// such as ${app_code}; their values must hold nothing that JSON escapes.
func NewPlayer(client Client, url string, cases []Case, holes map[string]string) *Player {
	p := &Player{client: client, url: url, cases: map[string]Case{}, holes: holes, played: map[string]any{}}
	for _, c := range cases {
		p.cases[c.Name] = c
	}
	return p
}

// Play plays the case of that name, and before it the one that it comes after, unless they have been played already. It
// reports every difference to t and returns the decoded body of the answer.
func (p *Player) Play(t *testing.T, name string) any {
	t.Helper()
	if body, ok := p.played[name]; ok {
		return body
	}
	c, ok := p.cases[name]
	if !ok {
		t.Fatalf("there is no example %s", name)
	}
	var before any
	if c.Request.After != "" {
		before = p.Play(t, c.Request.After)
	}
	fill := p.filler(t, before)
	got, differences := p.send(t, c, fill)
	for start := time.Now(); c.Request.Eventually && len(differences) > 0 && time.Since(start) < patience; {
		<-time.After(again)
		got, differences = p.send(t, c, fill)
	}
	for _, difference := range differences {
		t.Errorf("%s: %s", name, difference)
	}
	p.played[name] = got
	return got
}

// Played is how many cases have been played.
func (p *Player) Played() int { return len(p.played) }

// send sends the request once and compares the answer.
func (p *Player) send(t *testing.T, c Case, fill func(string) string) (got any, differences []string) {
	t.Helper()
	body := c.Request.Text
	if c.Request.Body != nil {
		body = fill(string(c.Request.Body))
	}
	r, err := http.NewRequestWithContext(t.Context(), c.Request.Method, p.url+fill(c.Request.Path),
		strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	for k, v := range c.Request.Headers {
		r.Header.Set(k, fill(v))
	}
	resp, err := p.client.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	var want any
	if err := json.Unmarshal([]byte(fill(string(c.Response.Body))), &want); err != nil {
		t.Fatalf("%s: expected body: %v", c.Name, err)
	}
	if err := json.Unmarshal(reply, &got); err != nil {
		t.Fatalf("%s: answer is no JSON: %v: %s", c.Name, err, reply)
	}
	if resp.StatusCode != c.Response.Status {
		differences = append(differences, fmt.Sprintf("status is %d, want %d: %s", resp.StatusCode, c.Response.Status,
			reply))
	}
	for k, v := range c.Response.Headers {
		if resp.Header.Get(k) != v {
			differences = append(differences, fmt.Sprintf("header %s is %q, want %q", k, resp.Header.Get(k), v))
		}
	}
	return got, append(differences, Compare("body", want, got)...)
}

// filler returns what fills the holes of a case that comes after another one with the given answer.
func (p *Player) filler(t *testing.T, before any) func(string) string {
	t.Helper()
	var pairs []string
	for hole, value := range p.holes {
		pairs = append(pairs, hole, value)
	}
	known := strings.NewReplacer(pairs...)
	return func(text string) string {
		text = known.Replace(text)
		for from := strings.Index(text, "${data."); from >= 0; from = strings.Index(text, "${data.") {
			end := from + strings.IndexByte(text[from:], '}')
			text = text[:from] + fmt.Sprint(at(t, before, text[from+2:end])) + text[end+1:]
		}
		return text
	}
}

// at returns what stands at a dotted path.
func at(t *testing.T, v any, dotted string) any {
	t.Helper()
	for part := range strings.SplitSeq(dotted, ".") {
		object, ok := v.(map[string]any)
		if !ok || object[part] == nil {
			t.Fatalf("%s is not in the answer before: %v", dotted, v)
		}
		v = object[part]
	}
	return v
}
