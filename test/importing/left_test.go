package importing_test

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// file writes a process file with a process of this name, which runs the program main.
func (p *place) file(name, seconds, dir string) string {
	return p.Write(name+".yaml", "namespace: shop\nprocesses:\n  "+name+
		": {hosts: [\"*\"], run: ./main "+seconds+", directory: "+dir+"}\n")
}

// refused fails unless the apply of a file is refused beside the process with this pid.
func (p *place) refused(file string, pid int) {
	p.T.Helper()
	if f := p.cli(1, "apply", "-f", file, "--yes"); !strings.Contains(f.Out, "runs that drover does not watch: pid "+strconv.Itoa(pid)+" [") {
		p.T.Errorf("the refusal does not name pid %d: %s", pid, f.Out)
	}
}

// TestUnregistered: what drover has started and no longer knows is a copy: a start beside it is refused under each name,
// and takes it over on demand, as the command of drift does.
func TestUnregistered(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	harness.Sleeper(t, p.Dir, "main")
	main, web := p.file("main", "4011", p.Dir), p.file("web", "4011", p.Dir)
	p.cli(0, "apply", "-f", main, "--yes")
	was := p.PID("main")
	if out := p.cli(0, "unregister", "shop/main").Out; !strings.Contains(out, "pid "+strconv.Itoa(was)+" runs on, and") {
		t.Errorf("unregister does not say that pid %d runs on: %s", was, out)
	}
	var drift struct{ Items []struct{ Mend string } }
	if err := json.Unmarshal([]byte(p.cli(3, "drift", "-o", "json").Out), &drift); err != nil || len(drift.Items) != 1 {
		t.Fatalf("drift: %+v, %v", drift, err)
	}
	for command := range strings.SplitSeq(drift.Items[0].Mend, " && ") {
		p.cli(0, strings.Fields(command)[1:]...)
	}
	if pid := p.PID("main"); pid != was {
		t.Fatalf("after the command of drift drover watches pid %d, want %d", pid, was)
	}
	for _, file := range []string{main, web} {
		p.cli(0, "unregister", "shop/*", "--yes")
		p.refused(main, was)
		p.refused(web, was)
		p.cli(0, "apply", "-f", file, "--yes", "--take-over")
		if pid := p.PID(strings.TrimSuffix(filepath.Base(file), ".yaml")); pid != was || !harness.Alive(was) {
			t.Fatalf("drover watches pid %d of %s, want %d", pid, file, was)
		}
	}
	p.cli(0, "apply", "-f", main, "--yes") // that of another name is no copy
	if pid := p.PID("main"); pid == was || pid == 0 {
		t.Errorf("drover watches pid %d beside %d", pid, was)
	}
	p.cli(0, "stop", "shop/web")
	if harness.Alive(was) {
		t.Errorf("pid %d has outlived its stop", was)
	}
}
