// Package policy is the owner's limit on what drover may do on a host, whatever a server orders: a file on the host
// that no server can change. It owns how the file is written, when it is read, and what each line refuses. The caller
// asks for permission and handles a refusal.
package policy

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"drover/internal/process"
)

// DefaultFile is the default path of the policy.
const DefaultFile = "/etc/drover/policy.conf"

// Checker answers by the current content of the file. Without a file everything is allowed. If the file is unreadable,
// invalid or not trusted, nothing is allowed. Its methods are safe for concurrent use; each costs one stat of the
// file.
type Checker struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	stamp   stamp
	rules   *rules // nil without a file
	broken  error  // why nothing is allowed
	checked bool   // the file was checked before
}

// New returns the checker of the policy in a file, which is read at the first question.
func New(path string, log *slog.Logger) *Checker { return &Checker{path: path, log: log} }

// Allow returns nil if the operation is allowed, else a *process.Error that names the line that denies it. spec is the
// spec that the operation would use; an operation that neither runs nor stores any of it ignores spec. A relaunch and
// a periodic run are a process.Start. An end for a limit or for bad health is a process.Stop.
func (c *Checker) Allow(id process.ID, op process.Op, spec *process.Spec) error {
	return c.ask(func(r *rules) *refusal {
		if no := r.operation(op); no != nil {
			return no
		}
		if no := r.namespace(id.Namespace); no != nil {
			return no
		}
		if op.Info().Spec < process.SpecNeeded {
			return nil // the operation neither runs commands of the spec nor stores it
		}
		return r.spec(spec)
	})
}

// MayAsk returns nil if the commands of a spec may be run that only ask a process how it is, else as Allow.
func (c *Checker) MayAsk(id process.ID, spec *process.Spec) error {
	return c.ask(func(r *rules) *refusal {
		if r.observe != 0 {
			return &refusal{r.observe, "drover only observes here, and runs no command"}
		}
		if no := r.namespace(id.Namespace); no != nil {
			return no
		}
		return r.spec(spec)
	})
}

// MayLook returns nil if drover may look for a process and report it, as the spec says; else an error as Allow.
// observe-only also allows that.
func (c *Checker) MayLook(id process.ID, spec *process.Spec) error {
	return c.ask(func(r *rules) *refusal {
		if no := r.namespace(id.Namespace); no != nil {
			return no
		}
		return r.spec(spec)
	})
}

// MayRead returns nil if the policy allows a file to be read for a spec, else an error as Allow. Its path has no
// links.
func (c *Checker) MayRead(path string) error {
	return c.ask(func(r *rules) *refusal {
		if len(r.paths) == 0 || r.below(path, true) {
			return nil
		}
		return &refusal{r.paths[0].line, fmt.Sprintf("%q is not below %s", path, texts(r.paths))}
	})
}

func (c *Checker) ask(judge func(*rules) *refusal) error {
	r, err := c.current()
	if err != nil {
		return process.Errorf(process.Failed,
			"refused: the policy of this host cannot be used, so nothing is allowed: %v",
			err).Because(process.CausePolicy)
	}
	if r == nil {
		return nil
	}
	if no := judge(r); no != nil {
		return process.Errorf(process.Failed, "refused by the policy of this host, %s line %d: %s", c.path, no.line,
			no.why).Because(process.CausePolicy)
	}
	return nil
}

// Summary describes the policy in one line, for lists of hosts; empty if there is none.
func (c *Checker) Summary() string {
	r, err := c.current()
	switch {
	case err != nil:
		return "nothing is allowed: " + err.Error()
	case r == nil:
		return ""
	}
	return r.summary()
}

// Err returns why nothing is allowed; nil if the file is valid or missing.
func (c *Checker) Err() error {
	_, err := c.current()
	return err
}

// current returns the rules in force. It reads the file if the file has changed.
func (c *Checker) current() (*rules, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, err := stampOf(c.path)
	if c.checked && err == nil && c.broken == nil && seen == c.stamp {
		return c.rules, nil
	}
	before, first := c.describe(), !c.checked
	c.checked, c.stamp, c.rules, c.broken = true, seen, nil, err
	if err == nil && seen.there {
		c.rules, c.stamp, c.broken = read(c.path)
	}
	if now := c.describe(); now != before || first && now != "" {
		c.tell(now)
	}
	return c.rules, c.broken
}

func (c *Checker) describe() string {
	switch {
	case c.broken != nil:
		return c.broken.Error()
	case c.rules != nil:
		return c.rules.summary()
	}
	return ""
}

func (c *Checker) tell(now string) {
	switch {
	case c.broken != nil:
		c.log.Error("policy of this host is invalid, nothing is allowed", "file", c.path, "error", c.broken)
	case c.rules == nil:
		c.log.Info("policy of this host was removed, everything is allowed", "file", c.path)
	default:
		c.log.Info("loaded policy of this host", "file", c.path, "policy", now)
	}
}

// refusal is a denial by one line of the file.
type refusal struct {
	line int
	why  string
}

func (r *rules) operation(op process.Op) *refusal {
	if r.observe != 0 && !op.Info().Observes {
		return &refusal{r.observe, "drover only observes here, and does not " + string(op)}
	}
	named := func(e entry) bool { return e.text == string(op.Name()) }
	if len(r.operations) == 0 || slices.ContainsFunc(r.operations, named) {
		return nil
	}
	return &refusal{r.operations[0].line, fmt.Sprintf("%s is not among the operations %s", op, texts(r.operations))}
}

func (r *rules) namespace(name string) *refusal {
	if len(r.namespaces) == 0 || matchesAny(r.namespaces, name) {
		return nil
	}
	return &refusal{r.namespaces[0].line, fmt.Sprintf("namespace %q is not among %s", name, texts(r.namespaces))}
}

func (r *rules) spec(spec *process.Spec) *refusal {
	if spec == nil {
		return nil
	}
	if len(r.users) > 0 && !matchesAny(r.users, spec.User) {
		return &refusal{r.users[0].line, fmt.Sprintf("user %q is not among %s", spec.User, texts(r.users))}
	}
	if no := r.rights(spec); no != nil {
		return no
	}
	if no := r.checkVariables(spec); no != nil {
		return no
	}
	return r.places(spec)
}

func texts(list []entry) string {
	words := make([]string, 0, len(list))
	for _, e := range list {
		words = append(words, e.text)
	}
	return strings.Join(words, " ")
}
