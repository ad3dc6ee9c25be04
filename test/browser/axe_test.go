package browser_test

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"drover/internal/test/harness"
)

// axe is axe-core, untouched from its npm package (sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==).
//
//go:embed axe-core@4.14.1/axe.min.js
var axe string

// TestAxeIsUntouched: the file is the one of the npm package whose integrity was checked.
func TestAxeIsUntouched(t *testing.T) {
	sum := sha256.Sum256([]byte(axe))
	const want = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("axe.min.js has the sha256 %s, want %s", got, want)
	}
}

// violation is a finding of axe-core.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// findings asks axe-core for the serious and critical findings of the page. It runs in a world of its own, which the page
// does not see.
const findings = `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations
	.filter((v) => v.impact === "serious" || v.impact === "critical")
	.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help,
		Nodes: v.nodes.slice(0, 5).map((n) => n.html.slice(0, 300) + " | " + n.failureSummary)}))))`

// accessible fails the test if axe-core has a serious or critical finding on the page.
func (b *tab) accessible() {
	b.t.Helper()
	found, err := b.violations()
	if err != nil {
		b.t.Errorf("axe-core on %s: %v", b.where(), err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range found {
		b.offend("axe-core: %s: %s: %s:\n  %s", v.Impact, v.ID, v.Help, strings.Join(v.Nodes, "\n  "))
	}
}

func (b *tab) violations() (found []violation, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	tree, err := chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		return nil, err
	}
	world, err := chromedp.Call(ctx, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{
		FrameID: tree.FrameTree.Frame.ID, WorldName: "axe",
	})
	if err != nil {
		return nil, err
	}
	yes := true
	result := ""
	for _, script := range []string{"if (!globalThis.axe) {" + axe + "}; 'loaded'", findings} {
		answer, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
			Expression: script, ContextID: world.ExecutionContextID, AwaitPromise: &yes, ReturnByValue: &yes,
		})
		if err != nil {
			return nil, err
		}
		if x := answer.ExceptionDetails; x != nil {
			return nil, fmt.Errorf("%s %v", x.Text, x.Exception)
		}
		if err := json.Unmarshal(answer.Result.Value, &result); err != nil {
			return nil, err
		}
	}
	return found, json.Unmarshal([]byte(result), &found)
}
