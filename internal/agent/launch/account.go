package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoAccount is wrapped by the error for a user that this host does not know.
var ErrNoAccount = errors.New("unknown on this host")

// lookupTime bounds each question to the name service, because a directory server may be far away.
const lookupTime = 5 * time.Second

// Account is the Unix account of a command.
type Account struct {
	Name     string
	UID, GID uint32
	// Groups holds the primary group first, then the supplementary ones.
	Groups      []uint32
	Home, Shell string
	// Regrouped says that it has other groups than this process, because In was told so.
	Regrouped bool
}

// LookupAccount finds a user in etc/passwd and etc/group below root, which is "/" outside tests. Otherwise it asks the
// name service of the host through getent and id, for up to 5 s each. A number is a name, or else the number of a user.
// The error wraps ErrNoAccount if the user does not exist.
func LookupAccount(root, name string) (Account, error) {
	unknown := fmt.Errorf("user %q is %w", name, ErrNoAccount)
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, ":\n\x00") {
		return Account{}, unknown
	}
	passwd, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Account{}, fmt.Errorf("cannot look up user %q: %w", name, err)
	}
	number, err := strconv.ParseUint(name, 10, 32)
	numeric := err == nil
	if numeric {
		unknown = fmt.Errorf("user %q is %w: no account has this number", name, ErrNoAccount)
	}
	account, found := accountByName(passwd, name)
	if !found && numeric {
		account, found = accountByUID(passwd, int(number))
	}
	if found {
		account.Groups, err = localGroups(root, account)
		return account, err
	}
	line, err := ask(name, "getent", "passwd", name)
	if err != nil {
		return Account{}, err
	}
	account, found = parsePasswd(line)
	// Some services ignore the case of letters.
	if !found || !strings.EqualFold(account.Name, name) && (!numeric || uint64(account.UID) != number) {
		return Account{}, unknown
	}
	ids, err := ask(name, "id", "-G", account.Name)
	if err != nil {
		return Account{}, err
	}
	account.Groups = []uint32{account.GID}
	for word := range strings.FieldsSeq(ids) {
		gid, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return Account{}, fmt.Errorf("cannot look up groups of user %q: unexpected answer %q", name, ids)
		}
		account.Groups = append(account.Groups, uint32(gid))
	}
	account.Groups = distinct(account.Groups)
	return account, nil
}

// UnitProperty returns a property of a unit of systemd. It waits at most two seconds, and fails if systemd does not
// answer (systemctl(1)).
func UnitProperty(unit, property string) (string, error) {
	const limit = 2 * time.Second
	out, err := output(limit, "systemctl", "show", "--property="+property, "--value", "--", unit)
	return strings.TrimSpace(string(out)), err
}

// output returns what a program writes to stdout within a time; context.DeadlineExceeded if it takes longer.
func output(limit time.Duration, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

// ask returns the output of a lookup tool; empty if the tool is missing or finds nothing.
func ask(name, tool string, args ...string) (string, error) {
	out, err := output(lookupTime, tool, args...)
	var status *exec.ExitError
	switch {
	case err == nil:
		return string(out), nil
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("cannot look up user %q: %s gave no answer within %s", name, tool, lookupTime)
	case errors.As(err, &status) || errors.Is(err, exec.ErrNotFound):
		return "", nil
	default:
		return "", fmt.Errorf("cannot look up user %q: %w", name, err)
	}
}

// parsePasswd reads one line of passwd(5).
func parsePasswd(line string) (Account, bool) {
	f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
	if len(f) < 7 {
		return Account{}, false
	}
	uid, errUID := strconv.ParseUint(f[2], 10, 32)
	gid, errGID := strconv.ParseUint(f[3], 10, 32)
	if errUID != nil || errGID != nil {
		return Account{}, false
	}
	a := Account{Name: f[0], UID: uint32(uid), GID: uint32(gid), Home: f[5], Shell: f[6]}
	if a.Home == "" {
		a.Home = "/"
	}
	if a.Shell == "" {
		a.Shell = shell
	}
	return a, true
}

func accountByName(passwd []byte, name string) (Account, bool) {
	for line := range bytes.Lines(passwd) {
		if a, ok := parsePasswd(string(line)); ok && a.Name == name {
			return a, true
		}
	}
	return Account{}, false
}

func accountByUID(passwd []byte, uid int) (Account, bool) {
	for line := range bytes.Lines(passwd) {
		if a, ok := parsePasswd(string(line)); ok && int(a.UID) == uid {
			return a, true
		}
	}
	return Account{}, false
}

// localGroups reads group(5).
func localGroups(root string, a Account) ([]uint32, error) {
	groups := []uint32{a.GID}
	data, err := os.ReadFile(filepath.Join(root, "etc/group"))
	if errors.Is(err, fs.ErrNotExist) {
		return groups, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look up groups of user %q: %w", a.Name, err)
	}
	for line := range bytes.Lines(data) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) < 4 || !slices.Contains(strings.Split(f[3], ","), a.Name) {
			continue
		}
		if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			groups = append(groups, uint32(gid))
		}
	}
	return distinct(groups), nil
}

// distinct drops repeated values and keeps the order.
func distinct(ids []uint32) []uint32 {
	var out []uint32
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// In returns the account with another primary group and other supplementary groups: an empty group and nil groups keep
// those of the account. It finds groups as LookupAccount finds users, and also accepts a number. The error wraps
// ErrNoAccount if a group does not exist, and joins the faults of all groups.
func (a Account) In(root, group string, groups []string) (Account, error) {
	if group == "" && groups == nil {
		return a, nil
	}
	supplementary := a.Groups
	if len(supplementary) > 0 {
		supplementary = supplementary[1:]
	}
	if group != "" {
		gid, err := lookupGroup(root, group)
		if err != nil {
			return a, err
		}
		a.GID = gid
	}
	if groups != nil {
		supplementary = nil
		var faults []error
		for _, name := range groups {
			gid, err := lookupGroup(root, name)
			supplementary, faults = append(supplementary, gid), append(faults, err)
		}
		if err := errors.Join(faults...); err != nil {
			return a, err
		}
	}
	a.Groups = distinct(append([]uint32{a.GID}, supplementary...))
	a.Regrouped = groups != nil || int(a.GID) != os.Getegid()
	return a, nil
}

// lookupGroup returns the number of a group.
func lookupGroup(root, name string) (uint32, error) {
	unknown := fmt.Errorf("group %q is %w", name, ErrNoAccount)
	if gid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(gid), nil
	}
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, ":\n\x00") {
		return 0, unknown
	}
	data, err := os.ReadFile(filepath.Join(root, "etc/group"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cannot look up group %q: %w", name, err)
	}
	for line := range bytes.Lines(data) {
		if gid, ok := parseGroup(string(line), name); ok {
			return gid, nil
		}
	}
	line, err := ask(name, "getent", "group", name)
	if err != nil {
		return 0, err
	}
	if gid, ok := parseGroup(line, name); ok {
		return gid, nil
	}
	return 0, unknown
}

// parseGroup reads a line of group(5); ok tells that it is the line of that group.
func parseGroup(line, name string) (gid uint32, ok bool) {
	f := strings.Split(strings.TrimSpace(line), ":")
	if len(f) < 3 || f[0] != name {
		return 0, false
	}
	number, err := strconv.ParseUint(f[2], 10, 32)
	return uint32(number), err == nil
}
