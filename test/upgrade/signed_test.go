package upgrade_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// fates are edits that make an agent misbehave while it is tried, as a file in its directory says. "late" ends it after
// its proof, and "mortal" whenever it has run for some seconds after its trial. A program of a later format writes that
// format once it has proven itself.
func fates(later bool) []edit {
	const run, link = "internal/agentcli/run.go", "internal/agent/uplink/link.go"
	list := []edit{
		{run, "		a, err := agent.New(cfg)\n", `			if word, err := os.ReadFile(filepath.Join(cfg.Dir, "fate")); err == nil && r.prove > 0 {
				switch string(word) {
				case "crash":
					os.Exit(3)
				case "hang":
					syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				case "spin":
					go func() { // half of a processor, however busy this machine is: the kernel needs the other half
						runtime.LockOSThread()
						unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
						for rest := (unix.Timespec{Nsec: 2e7}); ; {
							for began := time.Now(); time.Since(began) < 2e7; {
							}
							syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0)
						}
					}()
				case "deaf":
					uplink.Deaf = true
				case "blind":
					cfg.Dir = cfg.Dir + "-blind"
				case "late":
					time.AfterFunc(3*time.Second, func() { os.Exit(4) })
				}
			}
			if word, err := os.ReadFile(filepath.Join(cfg.Dir, "fate")); err == nil && r.prove == 0 && string(word) == "mortal" {
				time.AfterFunc(3*time.Second, func() { os.Exit(5) })
			}
			a, err := agent.New(cfg)
`},
		{run, "	\"drover/internal/agent/upgrade\"\n", "	\"drover/internal/agent/upgrade\"\n	\"drover/internal/agent/uplink\"\n	\"runtime\"\n	\"time\"\n	\"unsafe\"\n\n	\"golang.org/x/sys/unix\"\n"},
		{link, "type Link struct {\n", "var Deaf bool\n\ntype Link struct {\n"},
		{link, "	conn, subject, err := l.connection(ctx)\n", `	conn, subject, err := l.connection(ctx)
	if Deaf {
		subject += ".nowhere"
	}
`},
	}
	if later {
		list = append(list, newerFormat()...)
	}
	return list
}

// owner is the owner of a host, who signs versions.
type owner struct {
	*rig
	key, public string
	flags       []string
	pid         int
	at          int // the number of the last signature
	// outlet is the power of the host; nil unless it can be cut.
	outlet *harness.Outlet
}

// trialTime is how long a version may take to prove itself in these tests.
const trialTime = "15s"

// newOwner returns a host with a running process, whose agent pins a key.
func newOwner(t *testing.T, flags ...string) *owner {
	t.Helper()
	return ownerOf(t, false, flags...)
}

// ownerOf is newOwner, with a host whose power can be cut.
func ownerOf(t *testing.T, outlet bool, flags ...string) *owner {
	t.Helper()
	o := &owner{rig: &rig{Fleet: &harness.Fleet{
		T: t, Drover: binaries.drover, Agent: binaries.agent,
		Flags: append([]string{"--fabric", harness.FreeAddress(t)}, flags...),
	}, t: t}}
	o.Begin()
	if outlet {
		o.outlet = harness.PlugIn(t, o.AgentDir("one"))
		o.Place = func(name string) []string {
			if name == "one" {
				return o.outlet.Place()
			}
			return nil
		}
	}
	o.dir = harness.Workdir(t)
	o.key = filepath.Join(o.dir, "release.key")
	o.public = strings.TrimSpace(o.must("packages", "keygen", o.key))
	o.flags = []string{"--release-keys", o.public, "--trial-time", trialTime}
	o.agent = o.JoinAndStart("one", "127.0.0.2", 0, o.flags...)
	file := filepath.Join(o.dir, "file.yaml")
	text := "namespace: shop\nprocesses:\n  api: {hosts: [\"" + host + "\"], directory: " + o.dir + ", run: sleep 100000, ready: {alive: 0s}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.CLI("apply", "-f", file, "--yes")
	o.pid = pid(o.processes()["api"])
	return o
}

// must runs a command of drover that needs no server.
func (o *owner) must(args ...string) string {
	o.t.Helper()
	code, out, errs := o.Run("owner", "", o.Drover, args...)
	if code != 0 {
		o.t.Fatalf("drover %q: exit code %d: %s", args, code, errs)
	}
	return out
}

// restart starts the agent again, as its supervisor would.
func (o *owner) restart() {
	o.t.Helper()
	o.agent = o.StartAgent("one", o.flags...)
}

// add signs a program as a version and adds it.
func (o *owner) add(program, version string, flags ...string) {
	o.t.Helper()
	o.at++
	copied := filepath.Join(o.dir, fmt.Sprintf("program-%d", o.at))
	text, err := os.ReadFile(program)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.must(append([]string{"packages", "sign", copied, "--key", o.key, "--version", version}, flags...)...)
	o.CLI("packages", "add", copied)
}

// fate says how the next trial misbehaves.
func (o *owner) fate(word string) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.AgentDir("one"), "agent", "fate"), []byte(word), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// begin begins an upgrade and returns the id of its rollout.
func (o *owner) beginUpgrade(version string) string {
	o.t.Helper()
	return strings.TrimSpace(o.CLI("agents", "upgrade", host, "--to", version, "--no-wait"))
}

// end waits for the end of a rollout of one host, and returns the state and the message of the host.
func (o *owner) end(id string) (state, message string) {
	o.t.Helper()
	var r struct {
		State string
		Hosts []struct{ State, Message string }
	}
	harness.Eventually(o.t, "the end of "+id, func() bool {
		if err := json.Unmarshal([]byte(o.CLI("rollout", "status", id, "-o", "json")), &r); err != nil {
			o.t.Fatal(err)
		}
		return slices.Contains([]string{"ok", "failed", "skipped"}, r.Hosts[0].State)
	})
	return r.Hosts[0].State, r.Hosts[0].Message
}

// upgraded fails the test unless an upgrade ends so, and the process still runs under the agent that the host reports.
func (o *owner) upgraded(version, want string) {
	o.t.Helper()
	state, message := o.end(o.beginUpgrade(version))
	if wanted := map[bool]string{true: "ok", false: "failed"}[want == ""]; state != wanted || !strings.Contains(message, want) {
		o.t.Errorf("version %s: %s, %q, want %q", version, state, message, want)
	}
	harness.Eventually(o.t, "the list to show the outcome", func() bool {
		var list []struct {
			WantedBuild string `json:"wanted_build"`
			Upgrade     string
		}
		if err := json.Unmarshal([]byte(o.CLI("agents", "-o", "json")), &list); err != nil {
			o.t.Fatal(err)
		}
		return len(list) == 1 && list[0].WantedBuild == version && strings.Contains(list[0].Upgrade, want)
	})
	o.unharmed()
}

// unharmed fails the test unless the process is as it was, and the agent obeys.
func (o *owner) unharmed() {
	o.t.Helper()
	o.Online(host)
	if o.agent.Ended() {
		o.t.Error("the agent has ended")
	}
	if now := pid(o.processes()["api"]); now != o.pid || !harness.Alive(o.pid) {
		o.t.Errorf("the process had pid %d, and has %d", o.pid, now)
	}
}

// runs fails the test unless the host reports this version and no other program of it runs.
func (o *owner) runs(version string) {
	o.t.Helper()
	harness.Eventually(o.t, "the host to run "+version, func() bool {
		return strings.Contains(o.CLI("agents"), " "+version+" ")
	})
	harness.Eventually(o.t, "the agent to be a fetched program", func() bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", o.agent.PID()))
		return err == nil && strings.Contains(exe, "/versions/drover-agent-")
	})
}

// TestSignedUpgrade: a host takes what its owner has signed and what proves itself, and nothing else. Its process keeps
// its pid all the time.
func TestSignedUpgrade(t *testing.T) {
	t.Parallel()
	fateful := buildEdited(t, "fateful", fates(false))
	o := newOwner(t)
	o.add(fateful, "1.1.0")
	for fate, want := range map[string]string{
		"crash": "it ended (exit status 3)", "hang": "not within 15s", "spin": "of a processor", "deaf": "did not reach a server",
		"late": "it ended (exit status 4)", "blind": "it ended (exit status",
	} {
		o.fate(fate)
		o.upgraded("1.1.0", want)
	}
	o.fate("none")
	o.upgraded("1.1.0", "")
	o.runs("1.1.0")
	if text := o.CLI("events", "--kind", "agent-upgraded", "-o", "json"); strings.Count(text, "agent-upgraded") != 1 ||
		!strings.Contains(text, "upgraded to version 1.1.0") {
		t.Errorf("the events are %s", text)
	}
	if text := o.CLI("events", "--kind", "agent-upgrade-failed", "-o", "json"); strings.Count(text, "went back") != 6 {
		t.Errorf("the events are %s", text)
	}
	if text := o.CLI("changes", "--from", "1h"); strings.Count(text, " → 1.1.0\n") != 1 ||
		!strings.Contains(text, " → 1.1.0 (trial)\n") || strings.Contains(text, "agent-restarted  1.1.0") {
		t.Errorf("the changes are\n%s", text)
	}
	o.upgraded("1.1.0", "")
	// The same program with another name gives the host that name.
	o.add(fateful, "1.1.1")
	o.upgraded("1.1.1", "")
	o.runs("1.1.1")
	// A restart of the agent, and a death, go on with that version.
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		o.agent.End(end)
		o.restart()
		o.runs("1.1.1")
		o.unharmed()
	}
	o.CLI("restart", "shop/api", "--yes")
	o.pid = pid(o.processes()["api"])
	// The way back needs a signature that says so.
	o.add(binaries.agent, "1.0.0")
	o.upgraded("1.0.0", "is below 1.1.1, which runs here, and was not signed as a downgrade")
	o.CLI("packages", "remove", "1.0.0", "amd64")
	o.add(binaries.agent, "1.0.0", "--downgrade")
	o.upgraded("1.0.0", "")
	o.runs("1.0.0")
	// A replay: 1.1.0 was signed before what runs now.
	o.upgraded("1.1.0", "sign it anew")
	o.agent.End(syscall.SIGKILL)
	// Somebody who damages the program on the disk gets the installed one.
	damaged, err := filepath.Glob(filepath.Join(o.AgentDir("one"), "agent", "versions", "drover-agent-*"))
	if err != nil || len(damaged) == 0 {
		t.Fatalf("%v, %v", damaged, err)
	}
	for _, path := range damaged {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.restart()
	o.unharmed()
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", o.agent.PID())); exe != binaries.agent {
		t.Errorf("the agent runs %s", exe)
	}
}

// TestAVersionThatDoesNotLast: a version that proves itself and ends soon, again and again. The rollout fails in its
// bake, and the host goes back by itself.
func TestAVersionThatDoesNotLast(t *testing.T) {
	t.Parallel()
	o := newOwner(t)
	o.add(buildEdited(t, "fateful", fates(false)), "1.1.0")
	o.fate("mortal")
	id := strings.TrimSpace(o.CLI("agents", "upgrade", host, "--to", "1.1.0", "--bake", "10m", "--no-wait"))
	executed := func() string {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", o.agent.PID()))
		return exe
	}
	const back = "proved itself, and the host went back later: it was started 5 times"
	for starts := 0; o.logged(back) == 0; starts++ {
		if starts > 6 {
			t.Fatal("the host has not gone back")
		}
		harness.Eventually(t, "the end of the agent", o.agent.Ended)
		o.restart()
		harness.Eventually(t, "the start of an agent", func() bool {
			return strings.Contains(executed(), "/versions/drover-agent-") || o.logged(back) > 0
		})
	}
	if state, message := o.end(id); state != "failed" || !strings.Contains(message, "was relaunched") {
		t.Errorf("the rollout: %s, %q", state, message)
	}
	o.unharmed()
	if exe := executed(); exe != binaries.agent {
		t.Errorf("the agent runs %s", exe)
	}
	harness.Eventually(t, "the event", func() bool {
		return strings.Contains(o.CLI("events", "--kind", "agent-upgrade-failed", "-o", "json"), back)
	})
	if text := o.CLI("agents", "-o", "json"); !strings.Contains(text, back) {
		t.Errorf("the list says %s", text)
	}
}

// TestLaterFormatGoesBack: a version with a later format of files leaves them as they are until it has proven itself.
func TestLaterFormatGoesBack(t *testing.T) {
	t.Parallel()
	later := buildEdited(t, "fateful-later", fates(true))
	o := newOwner(t)
	o.add(later, "2.0.0", "--format", "2")
	o.fate("late")
	o.upgraded("2.0.0", "it ended (exit status 4)")
	o.fate("none")
	o.upgraded("2.0.0", "")
	o.runs("2.0.0")
	// Its files are of the later format now, so an earlier version is refused, whoever has signed it.
	o.add(binaries.agent, "1.0.0", "--downgrade")
	o.upgraded("1.0.0", "knows record formats up to 1, and the files of this host have 2")
	o.runs("2.0.0")
}

// TestRefusedPackages: what the server refuses to add, and what hosts refuse.
func TestRefusedPackages(t *testing.T) {
	t.Parallel()
	o := newOwner(t)
	program := filepath.Join(o.dir, "program")
	text, err := os.ReadFile(binaries.agent)
	if err != nil {
		t.Fatal(err)
	}
	put := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		code, _, errs := o.Run("server", "", o.Drover, append(args, "--data-dir", o.ServerDir())...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, %q, want a word about %q", args, code, errs, want)
		}
	}
	put(program, text)
	refused("cannot read signature", "packages", "add", program)
	o.must("packages", "sign", program, "--key", o.key, "--version", "1.0.0")
	flipped := bytes.Clone(text)
	flipped[len(flipped)/3] ^= 2
	put(program, flipped)
	refused("is not the program that", "packages", "add", program)
	put(program, text[:len(text)-1])
	refused("is not the program that", "packages", "add", program)
	put(program, text)
	signed, err := os.ReadFile(program + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	put(program+".bad", bytes.Replace(signed, []byte(`"1.0.0"`), []byte(`"9.0.0"`), 1))
	refused("the signature does not match", "packages", "add", program, "--signature", program+".bad")
	// The same at the server itself, and a piece that the signed text does not describe.
	bad, err := os.ReadFile(program + ".bad")
	if err != nil {
		t.Fatal(err)
	}
	reply := o.do("POST", "/api/v1/packages", harness.Object{"signed": string(bad)}, 422)
	if !strings.Contains(fmt.Sprint(reply["detail"]), "the signature does not match") {
		t.Errorf("%v", reply)
	}
	o.do("POST", "/api/v1/packages", harness.Object{"signed": string(signed)}, 201)
	reply = o.do("PUT", "/api/v1/packages/1.0.0/amd64/pieces/0", harness.Object{"data": flipped[:1000]}, 422)
	if !strings.Contains(fmt.Sprint(reply["detail"]), "it has not the sum of piece 0") {
		t.Errorf("%v", reply)
	}
	o.do("PUT", "/api/v1/packages/1.0.0/amd64/pieces/99999", harness.Object{"data": text[:1000]}, 404)
	refused("lacks", "agents", "upgrade", host, "--to", "1.0.0")
	refused("there is no package of version 7.0.0", "agents", "upgrade", host, "--to", "7.0.0")
	o.CLI("packages", "add", program)
	other := filepath.Join(o.dir, "other.key")
	o.must("packages", "keygen", other)
	o.must("packages", "sign", program, "--key", other, "--version", "1.0.0")
	refused("is there with another signed text", "packages", "add", program)
	o.must("packages", "sign", program, "--key", other, "--version", "1.2.0")
	o.CLI("packages", "add", program)
	o.upgraded("1.2.0", "no release key that counts here has signed it")
	// The owner of the host forbids upgrades by its policy, or by pinning nothing.
	policy := filepath.Join(o.dir, "policy.conf")
	put(policy, []byte("operations operate\n"))
	o.agent.End(syscall.SIGTERM)
	o.agent = o.StartAgent("one", append(o.flags, "--policy", policy)...)
	o.upgraded("1.0.0", "refused by the policy of this host")
	o.agent.End(syscall.SIGTERM)
	o.agent = o.StartAgent("one")
	o.upgraded("1.0.0", "this host pins no release key")
}
