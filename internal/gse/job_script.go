package gse

import (
	"fmt"
	"strings"

	"drover/internal/process"
)

// The values that JOB's operate_proc fills in. A caller only says where a process is; scripts with fixed names in the
// same directory do the rest.
const (
	scriptCPU       = 50
	scriptMem       = 30
	scriptBegin     = 5
	scriptEnd       = 1
	scriptOpTimeout = 10
	scriptContact   = "mapleleaf"
)

// ReadJobScripted reads the body of JOB's operate_proc. An error means that the call is refused; it names the field.
func ReadJobScripted(body []byte) ([]Operation, error) {
	var b jobBody
	if err := scan(body, b.read); err != nil {
		return nil, err
	}
	for i := range b.Processes {
		if !b.Processes[i].script() {
			return nil, misreadf("%s is %.40q: expected sh, bat or ps1", fmt.Sprintf("process_infos[%d].cmd_shell_ext",
				i), b.Processes[i].Extension.value)
		}
	}
	return b.operations(process.OpOfGSE, requiredToOperate)
}

// script fills in what a caller of operate_proc cannot say, as JOB does. It reports false for an unknown shell.
func (p *jobProcess) script() bool {
	dir, name := p.SetupPath.value, p.ProcName.value
	var line func(verb string) Str
	switch extension := p.Extension.value; extension {
	case "", "sh":
		line = func(verb string) Str {
			return words("cd " + shellWord(dir) + " && ./" + verb + ".sh " + shellWord(name) + " &")
		}
	case "bat", "ps1":
		line = func(verb string) Str { return words("cd " + dir + " && " + verb + "." + extension + " " + name) }
	default:
		return false
	}
	p.jobCommands = jobCommands{
		Start: line("start"), Stop: line("stop"), Restart: line("restart"),
		Reload: line("reload"),
	}
	p.ValueKey = words(scriptKey(dir, name))
	p.CfgPath, p.LogPath, p.FuncID, p.InstanceID = Str{}, Str{}, Str{}, Str{}
	p.Contact = words(scriptContact)
	p.jobPolicy = jobPolicy{
		Type: whole(1), CycleTime: whole(0), Instances: whole(1), CheckBegin: whole(scriptBegin),
		CheckEnd:  whole(scriptEnd),
		OpTimeout: whole(scriptOpTimeout), CPULimit: share(p.CPULimit, scriptCPU),
		MemLimit: share(p.MemLimit, scriptMem),
	}
	return true
}

// scriptKey is the key of the result: path and name, joined by the separator that the path uses.
func scriptKey(dir, name string) string {
	switch {
	case strings.HasSuffix(dir, "/") || strings.HasSuffix(dir, `\`):
		return dir + name
	case strings.Contains(dir, `\`):
		return dir + `\` + name
	default:
		return dir + "/" + name
	}
}

// share keeps a limit from 0 to 100. It replaces a missing limit and one out of that range by missing.
func share(v Float, missing float64) Float {
	if v.state == bad || v.state == given && v.value >= 0 && v.value <= 100 {
		return v
	}
	return Float{lenient[float64]{value: missing, state: given}}
}

func words(s string) Str { return Str{lenient[string]{value: s, state: given}} }

func whole(n int64) Int { return Int{lenient[int64]{value: n, state: given}} }

// shellWord quotes a word for /bin/sh if necessary.
func shellWord(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
			!strings.ContainsRune("/_-.+:@%,=", c)
	})
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// MeansJob reports whether a body is meant for JOB, if the path does not tell.
func MeansJob(body []byte) bool {
	var biz, scope, action Str
	err := ReadTexts(body, map[string]*Str{"bk_biz_id": &biz, "bk_scope_id": &scope, "action": &action})
	return err == nil && (biz.state != absent || scope.state != absent || action.state != absent)
}

// noProcess is the process in keys that name only a host.
func noProcess() process.ID { return process.ID{} }

// agentKey is the key of a host.
func agentKey(t Target, _ process.ID) string { return t.Asked() }
