package launch

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch/gate"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// keptAt is the least number of the descriptors by which a command keeps its pipes open. Shells use those from 10 on.
const keptAt = 100

// scriptFor returns the arguments of a command and what its gate does until the command runs. The gate enters the
// directory: the fork itself must not, because until a child executes a program, nothing else of this process goes on.
// The account may own the file system, and that file system may never answer.
//
// Whoever may signal or open the gate holds up what waits for it, and has its descriptors. So a gate of root takes the
// account only when it holds nothing that is not the command's own (ADR 0092).
func scriptFor(c Command, r forkRequest) (argv []string, script []byte, err error) {
	var s gate.Script
	must := func(call int64, what string, arguments ...gate.Argument) {
		s.Must("drover: cannot "+what+"\n", gate.NoError, call, arguments...)
	}
	limit := func(name string, value int64) {
		most := binary.NativeEndian.AppendUint64(nil, rlimit(name, value).Max)
		must(unix.SYS_PRLIMIT64, setting(name, value), gate.Number(0), gate.Number(resources()[name]),
			s.Bytes(append(most, most...)), gate.Number(0))
	}
	limits, may := c.Execution.RLimits, mayLimit()
	for _, l := range limits {
		if !may && (l.Name != processes || beyondOwn(l.Name, l.Value)) { // but its own limits every process may lower
			limit(l.Name, l.Value)
		}
	}
	if mask := c.Execution.Umask; mask != nil {
		must(unix.SYS_UMASK, "set the umask", gate.Number(uint32(*mask)))
	}
	r.enter(&s, c)
	word := s.Bytes([]byte("\n"))
	s.Must("", 1, unix.SYS_READ, gate.Number(0), word, gate.Number(1))
	s.Must("drover: cannot write that it runs\n", 1, unix.SYS_WRITE, gate.Number(r.proofAt()), word, gate.Number(1))
	must(unix.SYS_DUP3, "open /dev/null", gate.Number(r.nullAt()), gate.Number(0), gate.Number(0))
	for _, fd := range []int{r.proofAt(), r.nullAt(), r.programAt()} {
		must(unix.SYS_CLOSE, "close a file", gate.Number(fd))
	}
	keepPipes(&s, c)
	r.become(&s, c.Account)
	if n, limited := limits.Get(processes); limited { // before, the account's other processes would keep it out
		limit(processes, n)
	}
	argv = []string{shell, "-c", c.Line}
	words, direct := wordsOf(c.Line)
	if direct {
		argv = words
		attempt(&s, words, r.env)
		// The shell knows why none of them runs, and says so. The memory below the arguments is free.
		for i, text := range []string{shell, "-c", fallback} {
			s.Put(gate.Vector(i-3), s.Text(text))
		}
	}
	first := 0
	if direct {
		first = -3
	}
	s.May(unix.SYS_EXECVE, gate.Arg(first), gate.Vector(first), gate.Environment(len(argv)))
	failed := []byte("drover: cannot execute " + shell + "\n")
	s.May(unix.SYS_WRITE, gate.Number(2), s.Bytes(failed), gate.Number(len(failed)))
	s.Exit(127)
	script, err = s.Encode()
	return argv, script, err
}

// keepPipes adds the calls that keep the pipes of a command open. A command with few descriptors goes without.
func keepPipes(s *gate.Script, c Command) {
	for _, fd := range []int{1, 2} {
		if c.Pipes {
			s.May(unix.SYS_FCNTL, gate.Number(fd), gate.Number(unix.F_DUPFD), gate.Number(keptAt))
		}
	}
}

const notAsUser = "drover: cannot run as its user\n"

// enter adds the calls that enter the directory with the account's rights. A gate of root takes the effective id only,
// and only for that: the account has no power over a process with the real id of root.
func (r forkRequest) enter(s *gate.Script, c Command) {
	keep := gate.Number(-1)
	if r.becomes {
		s.Must(notAsUser, gate.NoError, unix.SYS_SETRESUID, keep, gate.Number(c.Account.UID), keep)
	}
	if c.Dir != "" {
		s.Must("drover: cannot enter its directory\n", gate.NoError, unix.SYS_CHDIR, s.Text(c.Dir))
	}
	if r.becomes {
		s.Must(notAsUser, gate.NoError, unix.SYS_SETRESUID, keep, gate.Number(0), keep)
		s.Must(notAsUser, gate.NoError, unix.SYS_PRCTL, gate.Number(unix.PR_SET_DUMPABLE), gate.Number(0))
	}
}

// become adds the calls that give the account's user to a gate of root, and its capabilities.
func (r forkRequest) become(s *gate.Script, a Account) {
	if !r.becomes {
		return
	}
	uid := gate.Number(a.UID)
	s.Must(notAsUser, gate.NoError, unix.SYS_SETRESUID, uid, uid, uid)
	if n := r.confinement; n != nil && n.bounded {
		s.Must(notAsUser, gate.NoError, unix.SYS_PRCTL, gate.Number(unix.PR_SET_SECUREBITS), gate.Number(n.secureBits))
		header := binary.NativeEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3)
		s.Must(notAsUser, gate.NoError, unix.SYS_CAPSET, s.Bytes(append(header, 0, 0, 0, 0)), s.Bytes(n.capabilities()))
	}
}

// fallback is the script of a shell that says why the gate could not execute a command. Shells say of a script without
// its interpreter that the script is not found, and of a directory that the permission lacks.
const fallback = `(f=$0 l= r=$(printf '\r')
case $f in */*);;*)f=$(command -v "$f");;esac
case $f in */*);;*)f=;;esac
[ -d "$f" ]&&{ echo "drover: $f is a directory">&2;exit 1;}
PATH=$PATH:/usr/bin:/bin
{ [ -x "$f" ]&&l=$(head -c 256 "$f"|head -n 1);} 2>/dev/null
case $l in "#!"*"$r")echo "drover: the first line of $f ends with CR LF, expected LF">&2;exit 1;;
"#!"*)set -f;IFS=" 	"
for w in ${l#??};do [ -e "$w" ]||{ echo "drover: no interpreter $w for $f">&2;exit 1;};break;done;;esac
[ -x "$f" ]||echo "drover: cannot execute $0">&2
:)||exit 126
exec "$0" "$@"`

// Executing reports whether the process of a command is still a gate, the shell after a gate that has failed, or
// between two programs.
func Executing(proc procfs.FS, pid int) bool {
	// The executable comes first: so the arguments may be those of a later program, never of an earlier one.
	if gate.Is(proc.Exe(pid)) {
		return true
	}
	p, err := proc.Info(pid)
	if err != nil || p.Zombie() {
		return false
	}
	return len(p.Args) == 0 || len(p.Args) > 2 && p.Args[0] == shell && p.Args[2] == fallback
}

// wordsOf returns the words of a line that needs no shell.
func wordsOf(line string) (words []string, direct bool) {
	rest, found := strings.CutPrefix(line, "exec ")
	if !found || strings.ContainsRune(line, 0) {
		return nil, false
	}
	words, exact := process.Words(rest)
	return words, exact && words[0] != "" && words[0][0] != '-'
}

// attempt adds the calls that execute words, from each directory of PATH if the first word has no slash.
func attempt(s *gate.Script, words, env []string) {
	execute := func(path gate.Argument) {
		s.May(unix.SYS_EXECVE, path, gate.Vector(0), gate.Environment(len(words)))
	}
	if strings.Contains(words[0], "/") {
		execute(gate.Arg(0))
		return
	}
	const after = 8 // calls that follow
	for _, v := range env {
		list, found := strings.CutPrefix(v, "PATH=")
		if !found {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			path := dir + "/" + words[0]
			if dir == "" {
				path = words[0]
			}
			if s.Room(after) < len(path)+len(fallback)+256 {
				return // the shell finds it
			}
			execute(s.Text(path))
		}
	}
}
