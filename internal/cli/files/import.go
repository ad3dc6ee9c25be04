package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/importer"
	"drover/internal/importer/onhost"
	"drover/internal/process"
	"drover/internal/processfile"
)

// importCommand is an import from the files of the old supervisor to the process file, or to the processes.
type importCommand struct {
	applyCommand
	namespace string
	hosts     []string
	adopt     bool
}

// source is an old supervisor.
type source struct {
	// read converts what the arguments name.
	read func(ctx context.Context, args, hosts []string) (*importer.Import, error)
	// pid returns the main pid of an origin; 0 if it does not run, and -1 if the supervisor does not say.
	pid func(ctx context.Context, args []string, origin string) int
	// release says how the supervisor lets go of the processes.
	release func(ctx context.Context, args []string, namespace string, all []importer.Process) string
}

// NewImport returns 'drover import' with its subcommands.
func NewImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:  "import",
		Args: cobra.ArbitraryArgs,
		RunE: command.Subcommands,
	}
	cmd.AddCommand(
		newImport(&cobra.Command{Use: "systemd UNIT|FILE..."}, source{readSystemd, systemdPID, releaseSystemd}),
		newImport(&cobra.Command{Use: "supervisord FILE"}, source{readSupervisord, supervisordPID, releaseSupervisord}),
	)
	return cmd
}

func newImport(cmd *cobra.Command, from source) *cobra.Command {
	a := importCommand{}
	cmd.Args = term.Args
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.run(cmd, from, args) }
	f := cmd.Flags()
	f.StringVar(&a.namespace, "namespace", "imported", "namespace of the processes")
	f.StringSliceVar(&a.hosts, "hosts", nil, "hosts of the processes; ids, CLOUD:IP or patterns (default: this host)")
	f.BoolVar(&a.adopt, "adopt", false, "take over the running processes of this host, as they are")
	f.BoolVarP(&a.Yes, "yes", "y", false, "do not ask for confirmation")
	a.WaitingFlags(cmd)
	return cmd
}

func (a *importCommand) run(cmd *cobra.Command, from source, args []string) error {
	a.Form = term.AsTable
	c, guess, err := a.where(cmd)
	if err != nil {
		return err
	}
	found, err := from.read(cmd.Context(), args, a.hosts)
	if err != nil {
		return term.Usagef("%w", err)
	}
	if guess {
		found.Notes = append(found.Notes, fmt.Sprintf("hosts: no server says how it knows this host: if it does not know "+
			"the name %s, write the id that drover hosts shows", a.hosts[0]))
	}
	pids := map[string]client.PID{}
	if a.adopt {
		pids = a.running(cmd, from, args, found)
	}
	text, err := found.Write(a.namespace)
	if err != nil {
		return err
	}
	if len(found.Processes) == 0 {
		return term.NoSuchf("there is no process to import%s", strings.Join(append([]string{""}, found.Notes...), "\n"))
	}
	if _, err := cmd.OutOrStdout().Write(text); err != nil || !a.adopt {
		return err
	}
	docs, err := processfile.Read("import", text)
	if err != nil {
		return &command.ExitError{Code: command.Usage, Err: err}
	}
	cmd.SetOut(cmd.ErrOrStderr()) // stdout has the file
	a.adopts, a.pids = true, pids
	applied := a.carry(cmd, c, docs)
	if exit, ok := errors.AsType[*command.ExitError](applied); applied != nil && (!ok || exit.Code != command.Partial) {
		return applied
	}
	changed := a.compare(cmd, c, found, pids)
	if len(found.Processes) > 0 {
		for line := range strings.Lines(from.release(cmd.Context(), args, a.namespace, found.Processes)) {
			term.Say(cmd, "%s\n", term.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	return cmp.Or(changed, applied)
}

// askTime is how long an import without --adopt waits for a server, which it need not have.
const askTime = 3 * time.Second

// where sets the hosts of the processes. guess says that the host is the name of this host, because no server says how
// it knows the host. The client is that of --adopt.
func (a *importCommand) where(cmd *cobra.Command) (c *client.Client, guess bool, err error) {
	if !a.adopt && len(a.hosts) > 0 {
		return nil, false, nil
	}
	c, err = a.Client(cmd)
	ctx, cancel := cmd.Context(), func() {}
	if !a.adopt {
		ctx, cancel = context.WithTimeout(ctx, askTime)
	}
	defer cancel()
	var own v1.JoinedHost
	if err == nil {
		own, err = thisHost(ctx, c, a.hosts)
	}
	switch {
	case err != nil && a.adopt:
		return nil, false, err
	case err != nil:
		a.hosts = []string{onhost.Facts().Hostname}
		return nil, true, nil
	}
	for _, host := range a.hosts {
		if !slices.Contains(namesOf(own), host) && host != onhost.Facts().Hostname {
			return nil, false, term.Usagef("--hosts: --adopt takes over processes of this host only")
		}
	}
	a.hosts = []string{own.ID}
	return c, false, nil
}

// running leaves out the processes and copies that do not run, and returns the pids of the others by name, as far as
// they are known.
func (a *importCommand) running(cmd *cobra.Command, from source, args []string, found *importer.Import,
) map[string]client.PID {
	pids := map[string]client.PID{}
	own, _ := onhost.Look(os.Getpid())
	var kept []importer.Process
	for _, p := range found.Processes {
		var origins []string
		for _, origin := range p.Origins {
			pid := from.pid(cmd.Context(), args, origin)
			now, runs := onhost.Look(pid)
			if pid > 0 && !runs { // it has just ended
				pid = 0
			}
			switch {
			case pid > 0:
				name := p.Name
				if p.Copies != nil {
					name = process.CopyName(name, len(origins)+1)
				}
				pids[name] = client.PID{Number: pid, Began: now.Began}
				if len(origins) == 0 {
					p.Locate(now.Args[0])
					p.Compare(own.Account, now.Account, now.Exe, now.Args)
				}
			case p.Schedule != nil: // it need not run
			case pid == 0:
				term.Say(cmd, "%s does not run: drover leaves it out\n", term.Printable(origin))
				continue
			case p.Once:
				term.Say(cmd, "%s runs once, and would run again: drover leaves it out\n", term.Printable(origin))
				continue
			}
			origins = append(origins, origin)
		}
		if len(origins) == 0 {
			continue
		}
		if p.Origins = origins; p.Copies != nil {
			p.Copies = new(len(origins))
		}
		kept = append(kept, p)
	}
	found.Processes = kept
	return pids
}

// compare says which pids drover watches, and fails if one is not that of the old supervisor. It leaves only those
// processes in found that drover watches.
func (a *importCommand) compare(cmd *cobra.Command, c *client.Client, found *importer.Import,
	pids map[string]client.PID,
) error {
	var wrong []error
	var kept []importer.Process
	for i := range found.Processes {
		p := &found.Processes[i]
		origins := p.Origins
		p.Origins = nil
		all, err := client.Collect(c.Processes(cmd.Context(), client.ProcessFilter{
			Namespace: a.namespace, Name: p.Name, Hosts: a.hosts,
		}))
		if err != nil {
			return remote.ExitOf(err)
		}
		have := map[string]int{}
		for _, one := range all {
			if one.Instance != nil {
				have[one.Name] = one.Instance.PID
			}
		}
		for n, one := range processfile.Expand(p.Named) {
			pid, was := have[one.Name], pids[one.Name].Number
			switch {
			case pid == 0 && was != 0:
				wrong = append(wrong, fmt.Errorf("%s/%s: drover has not taken over pid %d of %s: leave the process out of "+
					"the file, or end that pid before you apply the file, else both run", a.namespace, one.Name, was, origins[n]))
				continue
			case was == 0 && p.Schedule != nil:
			case pid == 0 || was != 0 && was != pid:
				wrong = append(wrong, fmt.Errorf("%s/%s: drover watches pid %d, and %s has pid %d",
					a.namespace, one.Name, pid, origins[n], was))
				continue
			default:
				term.Say(cmd, "%s: drover watches pid %d, which runs on as it is\n", a.namespace+"/"+one.Name, pid)
			}
			p.Origins = append(p.Origins, origins[n])
		}
		if len(p.Origins) > 0 {
			kept = append(kept, *p)
		}
	}
	found.Processes = kept
	if len(wrong) > 0 {
		return &command.ExitError{Code: command.Partial, Err: errors.Join(wrong...)}
	}
	return nil
}

// namesOf returns the names of a host.
func namesOf(a v1.JoinedHost) []string {
	return []string{a.ID, fmt.Sprintf("%d:%s", a.Cloud, a.IP), a.Name}
}

// thisHost returns the host of the server that this command runs on. names are of the hosts that a person means.
func thisHost(ctx context.Context, c *client.Client, names []string) (host v1.JoinedHost, err error) {
	agents, err := client.Collect(c.Hosts(ctx, client.HostFilter{State: "online"}))
	if err != nil {
		return host, remote.ExitOf(err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return host, err
	}
	var addresses []string
	for _, a := range own {
		if ip, ok := a.(*net.IPNet); ok {
			addresses = append(addresses, ip.IP.String())
		}
	}
	return hostWith(agents, addresses, onhost.Facts().Hostname, names)
}

// hostWith returns the only host with one of the addresses, else the only one with the name, as in a container or
// behind NAT. Of several, names decide.
func hostWith(agents []v1.JoinedHost, addresses []string, name string, names []string) (
	host v1.JoinedHost, err error,
) {
	found := slices.Clone(agents)
	found = slices.DeleteFunc(found, func(a v1.JoinedHost) bool { return !slices.Contains(addresses, a.IP) })
	if len(found) == 0 {
		found = slices.DeleteFunc(slices.Clone(agents), func(a v1.JoinedHost) bool { return a.Name != name })
	}
	candidates := len(found)
	if candidates > 1 {
		found = slices.DeleteFunc(found, func(a v1.JoinedHost) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(namesOf(a)[:2], name) })
		})
	}
	switch {
	case candidates == 0:
		return host, term.Usagef("--adopt: none of the %d hosts that are online has the name or an address of this host",
			len(agents))
	case len(found) != 1:
		return host, term.Usagef("--adopt: %d hosts have the name or an address of this host: give --hosts one of them",
			candidates)
	}
	return found[0], nil
}

func readSystemd(ctx context.Context, args, hosts []string) (*importer.Import, error) {
	units, err := onhost.Units(ctx, args)
	if err != nil {
		return nil, err
	}
	return importer.Systemd(units, hosts, onhost.Facts()), nil
}

func systemdPID(ctx context.Context, _ []string, origin string) int {
	return onhost.Unit(ctx, origin)
}

// letGo is what systemd must not do when the unit of an adopted process stops: relaunch or end it, remove its runtime
// directory or its pid file.
const letGo = `[Service]\nRestart=no\nKillMode=none\nExecStop=\nExecStopPost=\nRuntimeDirectoryPreserve=yes\nPIDFile=\n`

func releaseSystemd(ctx context.Context, _ []string, namespace string, all []importer.Process) string {
	var text strings.Builder
	text.WriteString("systemd still keeps these units. To let go without an end of a process, as root:\n")
	units := originsOf(all)
	for _, u := range units {
		unit := u.name
		if u.Schedule != nil {
			fmt.Fprintf(&text, "  systemctl disable --now %s   # else the timer starts %s, too\n",
				term.ShellWord(strings.TrimSuffix(unit, ".service")+".timer"), unit)
			continue
		}
		dir := filepath.Join("/etc/systemd/system", unit+".d")
		fmt.Fprintf(&text, "  mkdir -p %s && printf '%s' >%s\n", term.ShellWord(dir), letGo,
			term.ShellWord(filepath.Join(dir, "drover.conf")))
	}
	text.WriteString("  systemctl daemon-reload\n")
	for _, u := range units {
		if u.Schedule != nil {
			continue
		}
		unit := term.ShellWord(u.name)
		for _, trigger := range onhost.Triggers(ctx, u.name) {
			fmt.Fprintf(&text, "  systemctl disable --now %s   # else it starts %s, too\n", term.ShellWord(trigger), u.name)
		}
		if u.PrivateTmp {
			fmt.Fprintf(&text, "  # %s has PrivateTmp=true: its stop deletes the /tmp and /var/tmp of the process, which lives on without\n"+
				"  # them. Leave it to systemd until it may end once. Then run this line, and: drover restart %s/%s\n",
				u.name, namespace, u.Name)
		}
		fmt.Fprintf(&text, "  systemctl stop --job-mode=ignore-dependencies %s && systemctl disable %s\n", unit, unit)
	}
	return text.String()
}

// origin is one origin of a process.
type origin struct {
	*importer.Process
	name string
}

func originsOf(all []importer.Process) (origins []origin) {
	for i := range all {
		for _, name := range all[i].Origins {
			origins = append(origins, origin{&all[i], name})
		}
	}
	return origins
}

func readSupervisord(_ context.Context, args, hosts []string) (*importer.Import, error) {
	files, err := onhost.Configuration(args[0])
	if err != nil {
		return nil, err
	}
	return importer.Supervisord(files, hosts, onhost.Facts()), nil
}

func supervisordPID(ctx context.Context, args []string, origin string) int {
	return onhost.Program(ctx, args[0], origin)
}

func releaseSupervisord(ctx context.Context, args []string, _ string, all []importer.Process) string {
	var text strings.Builder
	text.WriteString("supervisord still keeps these processes, and has no command that lets go of a running one.\n")
	origins := map[string][]string{}
	for _, p := range all {
		origins[p.Program] = append(origins[p.Program], p.Origins...)
	}
	for _, p := range all {
		names := origins[p.Program]
		if delete(origins, p.Program); names == nil {
			continue // it is in the line of an earlier process
		}
		group := ""
		if p.Group != "" {
			group = fmt.Sprintf(", and %s from programs of [group:%s]", p.Program, p.Group)
		}
		fmt.Fprintf(&text, "  remove [program:%s] from the configuration%s (process %s)\n", p.Program, group,
			strings.Join(names, ", "))
	}
	pid := "PID"
	if n := onhost.Supervisord(ctx, args[0]); n > 0 {
		pid = fmt.Sprint(n)
	}
	fmt.Fprintf(&text, `Then either
  supervisorctl update    # ends each of these processes once, and drover relaunches it
or
  kill -KILL %s   # ends supervisord alone. A process that writes to a pipe of supervisord gets SIGPIPE then
`, pid)
	return text.String()
}
