package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/test/bench/lab"
)

// mostOfCall is when a call that has not ended is given up.
const mostOfCall = time.Minute

// answer is what came of a call.
type answer struct {
	// out has a line for each host that answered, with its address and, at its end, the pid of the daemon.
	out string
	// took is how long the call took, cpu what the caller spent of a processor; code is the exit code of its last
	// command, -1 where the call was given up.
	took, cpu time.Duration
	code      int
}

// tool is one that operates on hosts.
type tool struct {
	name string
	// program has to be installed; none is needed if empty.
	program string
	// most is how many hosts it is measured with at most, 0 is any number: some take minutes for what others do in a
	// second.
	most int
	// call asks for the pids of all daemons, after it has restarted them if that is asked for.
	call func(context.Context, *site, string) (answer, error)
	// daemon is what of the tool runs on a host, for the tools that are to see a host that hangs.
	daemon func(*site, int) int
}

// What a call does.
const (
	status  = "status"
	restart = "restart"
)

// ours are the names of what the others are compared with.
const (
	ours  = "drover"
	floor = "bare NATS"
)

func tools() []tool {
	agent := func(s *site, i int) int { return s.agents[i].PID() }
	sshd := func(s *site, i int) int { return s.sshds[i].PID() }
	clush := func(config string) func(*site) []string {
		return func(s *site) []string {
			return []string{"clush", "-q", "-f", "64", "-o", "-F " + s.file(config), "-w", strings.Join(s.hosts, ",")}
		}
	}
	pdsh := func(s *site) []string {
		return []string{"pdsh", "-R", "ssh", "-f", "32", "-w", strings.Join(s.hosts, ",")}
	}
	pssh := func(s *site) []string {
		return []string{"parallel-ssh", "-P", "-p", "32", "-t", "0", "-x", "-F " + s.file("ssh.conf"), "-h", s.file("hosts")}
	}
	ansible := func(s *site) []string {
		return []string{"ansible", "all", "-i", s.file("hosts"), "-f", "50", "-o", "-m", "command", "-a"}
	}
	return []tool{
		{name: floor, call: askFloor},
		{name: ours, call: droverCall("svc-*"), daemon: agent},
		{name: "drover, program in the foreground", call: droverCall("run-*"), daemon: agent},
		{name: "drover, each host is asked", call: droverQuery},
		{name: "clush, connections open", program: "clush", daemon: sshd, call: shell(clush("warm.conf"))},
		{name: "clush", program: "clush", most: 100, daemon: sshd, call: shell(clush("ssh.conf"))},
		{name: "pdsh", program: "pdsh", most: 100, daemon: sshd, call: shell(pdsh)},
		{name: "parallel-ssh", program: "parallel-ssh", most: 100, daemon: sshd, call: shell(pssh)},
		{name: "Ansible, 50 forks", program: "ansible", most: 100, daemon: sshd, call: shell(ansible)},
	}
}

// shell makes the call of a tool that is a command line, which ends with the command of the host.
func shell(line func(*site) []string) func(context.Context, *site, string) (answer, error) {
	return func(ctx context.Context, s *site, do string) (answer, error) {
		words := append(line(s), s.svc+" "+s.state("ssh")+" "+do)
		return s.run(ctx, words[0], words[1:]...)
	}
}

// run runs a command of a caller.
func (s *site) run(ctx context.Context, program string, args ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, mostOfCall)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "PDSH_SSH_ARGS_APPEND=-F "+s.file("ssh.conf"), "ANSIBLE_PIPELINING=1",
		"ANSIBLE_HOST_KEY_CHECKING=0", "ANSIBLE_SSH_ARGS=-F "+s.file("ansible.conf"),
		"ANSIBLE_PYTHON_INTERPRETER=/usr/bin/python3", "ANSIBLE_LOCAL_TEMP="+s.file("ansible"), "LC_ALL=C.UTF-8")
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	began := time.Now()
	err := cmd.Run()
	a := answer{out: out.String(), took: time.Since(began)}
	if cmd.ProcessState != nil {
		a.cpu, a.code = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return a, fmt.Errorf("cannot run %s: %w", program, err)
	}
	return a, nil
}

// askFloor is the call of the floor.
func askFloor(ctx context.Context, s *site, do string) (answer, error) { return s.ask(ctx, do) }

// droverCall makes the calls of the command line of drover: a restart, and then the list with the pids.
func droverCall(name string) func(context.Context, *site, string) (answer, error) {
	pattern := lab.Namespace + "/" + name
	return func(ctx context.Context, s *site, do string) (answer, error) {
		var restarted answer
		if do == restart {
			cmd := s.cli(ctx, "restart", pattern, "--yes", "--timeout", mostOfCall.String(), "-o", "name")
			var err error
			if restarted, err = s.run(ctx, cmd.Path, cmd.Args[1:]...); err != nil {
				return answer{}, err
			}
		}
		cmd := s.cli(ctx, "ps", pattern, "-o", "json")
		listed, err := s.run(ctx, cmd.Path, cmd.Args[1:]...)
		if err != nil {
			return answer{}, err
		}
		a := answer{
			took: restarted.took + listed.took, cpu: restarted.cpu + listed.cpu, code: max(restarted.code, listed.code),
		}
		a.out, err = pidsOf([]byte(listed.out))
		return a, err
	}
}

// pidsOf shortens the list of drover to a line for each host.
func pidsOf(list []byte) (string, error) {
	var all []v1.Process
	if err := json.Unmarshal(list, &all); err != nil {
		return "", fmt.Errorf("cannot read the list of processes: %w: %.200s", err, list)
	}
	var out strings.Builder
	for _, p := range all {
		if p.Instance != nil && !p.Stale {
			fmt.Fprintf(&out, "%s: %d\n", p.Host.IP, p.Instance.PID)
		}
	}
	return out.String(), nil
}

// droverQuery asks each host by the GSE API, whereas the list shows what the hosts last reported.
func droverQuery(_ context.Context, s *site, do string) (answer, error) {
	if do != status {
		return answer{}, errNotMeasured
	}
	var requests []lab.Object
	for i, host := range s.hosts {
		requests = append(requests, lab.Object{
			"meta":    lab.Object{"namespace": lab.Namespace, "name": "svc-" + strconv.Itoa(i)},
			"op_type": lab.Query, "agent_id_list": []string{"0:" + host},
		})
	}
	body, err := json.Marshal(lab.Object{"proc_operate_req": requests})
	if err != nil {
		return answer{}, err
	}
	codes, _, took, err := s.fleet.Operate(body)
	if err != nil {
		return answer{}, err
	}
	if err := lab.Failures(codes, 0); err != nil {
		return answer{}, err
	}
	return answer{took: took}, nil
}

// errNotMeasured is returned for what a tool does not do in a way of its own.
var errNotMeasured = errors.New("not measured")

// line finds an address and the number that ends its line.
var line = regexp.MustCompile(`(?m)^(127\.0\.\d+\.\d+)\b.*?(\d+)\s*$`)

// pids are those of an answer, by host.
func (a answer) pids() map[string]int {
	found := map[string]int{}
	for _, m := range line.FindAllStringSubmatch(a.out, -1) {
		found[m[1]], _ = strconv.Atoi(m[2]) // they are digits
	}
	return found
}
