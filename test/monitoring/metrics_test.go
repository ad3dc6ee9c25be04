package monitoring_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drover/internal/agent/lifecycle"
	"drover/internal/process"
	"drover/internal/test/harness"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// figures are the families of a /metrics, by name.
type figures map[string]*dto.MetricFamily

func scrape(t *testing.T, url string) figures {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d: %v", resp.StatusCode, err)
	}
	return families
}

// value is the sum of the samples of a family that have all the labels, given as "name=value".
func (f figures) value(name string, labels ...string) float64 {
	sum := 0.0
	for _, m := range f[name].GetMetric() {
		matching := 0
		for _, l := range m.GetLabel() {
			if slices.Contains(labels, l.GetName()+"="+l.GetValue()) {
				matching++
			}
		}
		if matching == len(labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// labels are the names of the labels of a family, in order.
func (f figures) labels(name string) []string {
	var names []string
	for _, m := range f[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if !slices.Contains(names, l.GetName()) {
				names = append(names, l.GetName())
			}
		}
	}
	slices.Sort(names)
	return names
}

// lively returns the figures of a drover with a process that was killed and relaunched, and a receiver that has heard of
// it.
func lively(t *testing.T) figures {
	t.Helper()
	s := harness.Start(t, binaries.drover, "--process-metrics", "1", "--limit-interval", "1s")
	r := receive(t)
	secret := register(t, s, "ops", r)
	p, dir := harness.Running(t, s, binaries.oddd, "cart")
	kill(t, p, dir)
	r.next(t, secret, "process_restart_success", "cart")
	harness.Eventually(t, "the process to be measured", func() bool {
		// Somebody who asks makes the agent look at once.
		s.Do("GET", "/api/v1/processes/"+p.Namespace+"/"+p.Name+"/hosts/"+harness.Agent+"/usage", nil)
		return scrape(t, s.URL).value("drover_agent_process_memory_bytes", "name=cart") > 0
	})
	scrape(t, s.URL) // the next one shows how long this took
	return scrape(t, s.URL)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	f := lively(t)
	t.Run("tell what has happened", func(t *testing.T) { tellWhatHasHappened(t, f) })
	t.Run("are documented", func(t *testing.T) { documented(t, f) })
	t.Run("are those of the rules", func(t *testing.T) { rules(t, f) })
	t.Run("are those of the dashboard", func(t *testing.T) { dashboard(t, f) })
}

func tellWhatHasHappened(t *testing.T, f figures) {
	for _, c := range []struct {
		name   string
		labels []string
		least  float64
	}{
		{"drover_operations_total", []string{"op=start", "outcome=ok", "code=0"}, 1},
		{"drover_operation_seconds", []string{"op=start"}, 1},
		{"drover_process_restarts_total", nil, 1},
		{"drover_events_total", []string{"kind=relaunched"}, 1},
		{"drover_event_lag_seconds", nil, 1},
		{"drover_hosts", []string{"presence=online"}, 1},
		{"drover_http_request_seconds", []string{"endpoint=operate_proc_v2", "status=2xx"}, 1},
		{"drover_http_request_seconds", []string{"endpoint=POST /api/v1/receivers", "status=2xx"}, 1},
		{"drover_http_request_seconds", []string{"endpoint=GET /metrics", "status=2xx"}, 1},
		{"drover_database_write_seconds", nil, 1},
		{"drover_audit_rows_total", nil, 1},
		{"drover_report_bytes", nil, 1},
		{"drover_receiver_last_delivery_timestamp_seconds", []string{"receiver=ops"}, 1},
		{"drover_agent_relaunches_total", nil, 1},
		{"drover_agent_processes_hosted", nil, 1},
		{"drover_agent_operations_finished_total", nil, 1},
		{"drover_agent_reports_total", nil, 1},
		{"drover_agent_connected", nil, 1},
		{"go_goroutines", nil, 1},
	} {
		if got := f.value(c.name, c.labels...); got < c.least {
			t.Errorf("%s %q is %v, want at least %v", c.name, c.labels, got, c.least)
		}
	}
	known := process.States()
	for _, state := range lifecycle.States() {
		if !slices.Contains(known, string(state)) {
			t.Errorf("a process is never shown in the state %q", state)
		}
	}
	if n := f.value("drover_processes", "state=other"); n != 0 {
		t.Errorf("%v processes are in a state that the server does not know", n)
	}
}

// documented compares docs/metrics.md with what there is.
func documented(t *testing.T, f figures) {
	for prefix, marker := range map[string]string{"drover_": "server", "drover_agent_": "agent"} {
		var names []string
		for name := range f {
			if strings.HasPrefix(name, prefix) && (marker == "agent" || !strings.HasPrefix(name, "drover_agent_")) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		var table strings.Builder
		table.WriteString("| metric | kind | labels | |\n|---|---|---|---|\n")
		for _, name := range names {
			labels := "`" + strings.Join(f.labels(name), "` `") + "`"
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f[name].GetType().String()),
				strings.TrimPrefix(labels, "``"), strings.ReplaceAll(f[name].GetHelp(), "|", `\|`))
		}
		path := filepath.Join(harness.Root(), "docs", "metrics.md")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := "<!-- "+marker+" -->\n", "<!-- end of "+marker+" -->"
		before, rest, found := strings.Cut(string(data), begin)
		have, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s has no place for the table of the %s", path, marker)
		}
		if *update {
			if err := os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if have != table.String() {
			t.Errorf("the table of the %s in docs/metrics.md is not\n%s(-update writes it)", marker, table.String())
		}
	}
}

// expressions checks that the metrics of an expression are there, with the labels that it asks for and the values that
// it wants.
func expressions(t *testing.T, f figures, where, expr string) {
	t.Helper()
	selector := regexp.MustCompile(`\b((?:drover|go|process)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`([a-z_]+)(=~|!=|!~|=)"([^"]*)"`)
	found := selector.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: %q names no metric", where, expr)
	}
	for _, s := range found {
		name := s[1]
		if f[name] == nil {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = cmp.Or(strings.TrimSuffix(s[1], suffix), name)
				if f[name] != nil {
					break
				}
			}
		}
		if f[name] == nil {
			t.Errorf("%s: there is no metric %s", where, s[1])
			continue
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			label, op, value := m[1], m[2], m[3]
			if label == "instance" { // of Prometheus itself
				continue
			}
			if !slices.Contains(f.labels(name), label) {
				t.Errorf("%s: %s has no label %s", where, name, label)
			}
			has := slices.ContainsFunc(f[name].GetMetric(), func(m *dto.Metric) bool {
				return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
					return l.GetName() == label &&
						l.GetValue() == value
				})
			})
			if op == "=" && !has {
				t.Errorf("%s: %s never has %s=%q", where, name, label, value)
			}
		}
	}
}

func rules(t *testing.T, f figures) {
	path := filepath.Join(harness.Root(), "deploy", "prometheus", "drover.rules.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" ||
				r.Annotations["description"] == "" {
				t.Errorf("the rule %+v does not say all", r)
			}
			expressions(t, f, r.Alert, r.Expr)
		}
	}
	if n < 6 {
		t.Errorf("there are %d rules", n)
	}
	// Prometheus's own word counts most, where it is installed.
	if tool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", path).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

func dashboard(t *testing.T, f figures) {
	data, err := os.ReadFile(filepath.Join(harness.Root(), "deploy", "grafana", "drover.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID    string
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		n++
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			expressions(t, f, p.Title, target.Expr)
		}
	}
	if n < 10 {
		t.Errorf("there are %d panels", n)
	}
	for _, v := range board.Templating.List {
		if query, ok := v.Query.(map[string]any); ok {
			expressions(t, f, "variable "+v.Name, fmt.Sprint(query["query"]))
		}
	}
}
