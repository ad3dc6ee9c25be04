package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module begins the path of each package.
const module = "drover/"

// stage is one call of go test.
type stage struct {
	Name     string
	Packages []string
	// Beside is how many packages are tested at the same time.
	Beside int
	// Flags and Env are those of go test, beside its own.
	Flags, Env []string
	// Needs says what is missing here; the stage is then left out.
	Needs string
}

// plan knows which package is tested when.
type plan struct {
	root              string
	product, blackBox []string
}

func newPlan(ctx context.Context, root string) (*plan, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "work")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list work: %w", err)
	}
	p := &plan{root: root}
	for pkg := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(pkg, module+"test/") {
			p.blackBox = append(p.blackBox, pkg)
		} else {
			p.product = append(p.product, pkg)
		}
	}
	p.product, p.blackBox = first(p.product, longest), first(p.blackBox, longestAtLength)
	return p, nil
}

// first puts some packages before the others, in their order: go test begins with the first, and what takes longest
// must not be left alone at the end.
func first(packages []string, before []string) []string {
	place := func(pkg string) int {
		if i := slices.Index(before, short(pkg)); i >= 0 {
			return i
		}
		return len(before)
	}
	slices.SortStableFunc(packages, func(a, b string) int { return place(a) - place(b) })
	return packages
}

// takes says how long a command takes, before it begins.
var takes = map[string]string{
	"test": "make test takes about 4 minutes on two processors, and 8 with an empty build cache.\n",
	"rest": "make test-rest takes about 12 minutes on two processors, and 20 with an empty build cache.\n",
}

// later says what a command leaves out, after it has ended.
var later = map[string]string{
	"test": "LATER: the built program at length, the race detector, fuzzing, and cut links (as root). Run: make test-rest\n",
	"rest": "LATER: the long forms. Run: make browser, make chaos, make netns, make upgrade, make servers, make hostile, make steady\n",
}

// longest and longestAtLength are the packages whose tests take longest, the longest first. Some take the processor and
// some wait: they are mixed, so that one of each kind runs beside the other.
var (
	longest = []string{
		"internal/server/store/postgres", "test/contract", "internal/cli", "internal/fabric/broker",
		"internal/server/api", "test/console", "internal/server/store/sqlite", "test/daemons",
		"internal/server/engine", "test/fleet", "internal/agent", "test/callers", "internal/agent/logs", "test/quickstart",
		"internal/server/provider", "test/readiness", "internal/server/httpapi", "internal/server/webui",
		"internal/server/rollout", "internal/agent/host",
	}
	longestAtLength = []string{
		"test/packages", "test/faults", "test/proxy", "test/browser", "test/rollouts", "test/upgrade", "test/netns", "test/limits",
		"test/desired", "test/trust", "test/screen", "test/why", "test/servers", "test/processfile", "test/importing",
	}
)

// brief are the tests that make test runs of the packages of test/ that take long: a story of each. It runs a package that is not
// named here whole, and none of a package without tests here.
var brief = map[string][]string{
	"test/browser":     {"TestSignIn", "TestTimes"},
	"test/desired":     {"TestRestoredDisk"},
	"test/failover":    nil,
	"test/faults":      {"TestI9_NoCredentials", "TestI5_AgentDies", "TestI7_StoppedStaysStopped"},
	"test/hosting":     {"TestGivenUpAndFlapping", "TestHealth"},
	"test/hostile":     nil,
	"test/importing":   {"TestUnits", "TestInstances"},
	"test/lifecycle":   {"TestRealDaemons", "TestRelaunch"},
	"test/limits":      {"TestUsageHistory"},
	"test/logs":        {"TestLogs", "TestFollow"},
	"test/netns":       nil,
	"test/packages":    {"TestPackages", "TestScripts"},
	"test/past":        {"TestWhatHappenedAtTen"},
	"test/processfile": {"TestExecution", "TestRestart", "TestStop"},
	"test/proxy":       {"TestJoiningThroughAProxy"},
	"test/rollouts":    {"TestCancelOfATask", "TestScheduledRollout"},
	"test/scale":       nil,
	"test/screen":      {"TestReadOnly"},
	"test/servers":     {"TestMixedUp"},
	"test/stopping":    {"TestKillOvertakes", "TestWithGroups"},
	"test/trust":       {"TestTheOwnerOfAHostDecides", "TestARecordedOrderIsWorthNothing"},
	"test/upgrade":     {"TestNewerFormat"},
	"test/why":         {"TestDeaths", "TestNothingIsWrong"},
}

// atRequest are the tests of the long forms alone, which the targets that later names run. They measure, or take minutes
// for faults of which the random run draws some, or repeat in a browser what tests without one find: internal/server/login
// signs people in, internal/server/webui ends their sessions and writes the files of lists, internal/server/access limits
// their rights, and test/console reads the audit log.
var atRequest = map[string][]string{
	"test/browser": {
		"TestAudit", "TestExport", "TestLargeFleet", "TestLinkExpires", "TestLongTab", "TestManyPeople", "TestManyTabs",
		"TestRightsByLabel", "TestSignInOverTLS", "TestSignInWithAProvider", "TestSlowAnswer", "TestWeight",
	},
	"test/netns": {
		"TestI1_I2_I3_BadLink", "TestI1_I2_I3_CutLinks", "TestI1_I2_PartitionDuringARollout", "TestI1_I4_FullDisks",
		"TestI2_PartitionOfAOneOf",
	},
	"test/servers": {"TestRestoredDatabaseOfTwentyHosts"},
}

// cut divides the packages of test/: make test runs the first whole, of the second a brief form, and nothing of the third.
func (p *plan) cut() (whole, briefly, later []string) {
	for _, pkg := range p.blackBox {
		switch tests, named := brief[short(pkg)]; {
		case !named:
			whole = append(whole, pkg)
		case len(tests) > 0:
			briefly = append(briefly, pkg)
		default:
			later = append(later, pkg)
		}
	}
	return whole, briefly, later
}

// pattern matches tests by their names. A test of the same name in another package of the stage goes with them.
func pattern(lists ...map[string][]string) string {
	var names []string
	for _, list := range lists {
		for _, tests := range list {
			names = append(names, tests...)
		}
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}

// stripped spares the linker what only a debugger needs.
const stripped = "-ldflags=-s -w"

// test is what a stranger runs.
func (p *plan) test() ([]stage, error) {
	whole, briefly, _ := p.cut()
	return []stage{
		{
			Name: "the product and the built program", Packages: first(slices.Concat(p.product, whole), longest),
			Beside: 3,
			Flags:  []string{stripped, "-timeout", "20m"},
		},
		{
			Name: "the built program in brief", Packages: briefly, Beside: 3,
			Flags: []string{stripped, "-timeout", "20m", "-run", pattern(brief)},
		},
	}, nil
}

// rest is everything else but fuzzing.
func (p *plan) rest() ([]stage, error) {
	_, briefly, later := p.cut()
	raced, err := p.raced()
	return append([]stage{{
		Name: "the built program at length", Packages: first(slices.Concat(briefly, later), longestAtLength), Beside: 2,
		Flags: []string{stripped, "-timeout", "25m", "-skip", pattern(brief, atRequest)},
	}}, raced...), err
}

// raced are the packages of the product in which something runs beside something else, under the race detector.
//
// SQLite is a translation from C: no memory of it is ours, and watching its accesses takes most of the time of a test with a
// database. The driver, through which we call it, is watched. A transcript runs the built program, in which the race
// detector is not. When the program ends other than by a key, bubbletea closes its reader while it reads. What measures
// much data, or asks one question after another, has no more races in it.
//
// By default the detector has every program wait for a second at its end, the programs that tests start too. Tests find
// goroutines that outlive their owner: they wait for them.
func (p *plan) raced() ([]stage, error) {
	s := stage{
		Name: "the product under the race detector", Beside: 3,
		Flags: []string{
			"-race", "-gcflags=modernc.org/sqlite/lib=-race=false", stripped, "-timeout", "20m", "-skip",
			"TestTranscripts|TestEachCommandEnds|TestTerminalIsRestored|" +
				"TestContract/(observations|events_among_many|polls_of_large_tasks|states_are_what_was|devices|trim_events)|" +
				pattern(alone),
		},
		Env: []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=0"},
	}
	for _, pkg := range p.product {
		if slices.Contains(texts, short(pkg)) {
			continue
		}
		shared, err := concurrent(filepath.Join(p.root, strings.TrimPrefix(pkg, module)))
		if err != nil {
			return nil, err
		}
		if shared {
			s.Packages = append(s.Packages, pkg)
		}
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		s.Needs = "gcc"
	}
	return []stage{s}, nil
}

// alone are tests of the product that the race detector does not watch: one goroutine stores much data in them, tries one
// history or asks one question after another, or lets hours of virtual time pass. A test of the same name in another package
// goes with them.
var alone = map[string][]string{
	"internal/agent": {
		"TestKillAtEveryWrite", "TestKillAtEveryWriteAfterAnEnd", "TestKillAtEveryWriteOfARelaunch",
		"TestKillAtEveryWriteUntilGivenUp",
	},
	"internal/agent/logs":       {"TestWithoutHolesAtRest"},
	"internal/agent/report":     {"TestAllStatesArrive", "TestCutBySize"},
	"internal/agent/supervisor": {"TestBudget", "TestI4_TenThousandCrashes"},
	"internal/agent/timetable":  {"TestAThousandProcesses"},
	"internal/cli":              {"TestHelp", "TestHelpInChinese"},
	"internal/server/api": {
		"TestAPageOfLargeProcessesIsShort", "TestAPageOfLongResultsIsShort", "TestLargeOperation",
	},
	"internal/server/engine": {
		"TestGroupsOfAMadAgent", "TestManyToRestore", "TestOldEventsSentAgain", "TestOneCleans", "TestRemovedWithoutAWord",
		"TestRevisionsArePruned",
	},
	"internal/server/httpapi": {
		"TestABodyThatIsTooLarge", "TestAPollReadsItsTaskOnce", "TestBodiesOfTheWrongShape", "TestLargeBodies",
		"TestManyAgentsInOneCall",
	},
	"internal/server/keyring":  {"TestATicketKeyIsGoneAfterThreeDays"},
	"internal/server/pairs":    {"TestNoLossLocksOut"},
	"internal/server/receiver": {"TestManyWithheld"},
	"internal/server/rollout":  {"TestHistories"},
	"internal/server/webui":    {"TestCountsLeadToTheirRows", "TestEveryRow"},
}

// texts are packages whose tests read the source and its words.
var texts = []string{"internal/archtest", "internal/words"}

// sharing are packages by which goroutines share memory, or which start goroutines.
var sharing = []string{
	"sync", "sync/atomic", "net/http", "net/http/httptest", "testing/synctest", "golang.org/x/sync/errgroup", module + "internal/group",
}

// starting are functions and methods that run something beside their caller: of a test, of a context and of a timer.
var starting = []string{"Parallel", "AfterFunc"}

// concurrent reports whether the code or the tests of a package have two goroutines: there is no race without them.
func concurrent(dir string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false, err
	}
	found := false
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		for _, i := range file.Imports {
			found = found || slices.Contains(sharing, strings.Trim(i.Path.Value, `"`))
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.SelectorExpr:
				found = found || slices.Contains(starting, n.Sel.Name)
			}
			return !found
		})
	}
	return found, nil
}

// steady are the packages whose tests have processes, servers or real time in them, without what the long forms alone run.
func (p *plan) steady(ctx context.Context, root, only string) ([]stage, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f",
		`{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "work")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list work: %w", err)
	}
	alive := []string{
		"net", "net/http", "net/http/httptest", "os/exec", "os/signal", "syscall", "time", module + "internal/agent/pidns",
		module + "internal/test/harness", module + "internal/test/pgtest",
	}
	chosen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if strings.Contains(words[0], only) && slices.ContainsFunc(words[1:], func(i string) bool { return slices.Contains(alive, i) }) {
			chosen[words[0]] = true
		}
	}
	keep := func(packages []string) []string {
		return slices.DeleteFunc(slices.Clone(packages), func(pkg string) bool { return !chosen[pkg] })
	}
	flags := []string{stripped, "-timeout", "60m"}
	stages := []stage{
		{Name: "the product", Packages: keep(p.product), Beside: 3, Flags: flags},
		{
			Name: "the built program", Packages: keep(p.blackBox), Beside: 3,
			Flags: append([]string{"-skip", pattern(atRequest)}, flags...),
		},
	}
	return slices.DeleteFunc(stages, func(s stage) bool { return len(s.Packages) == 0 }), nil
}
