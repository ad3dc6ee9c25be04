package processes

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/processfile"
)

// rolloutFlags are the flags of an operation or an apply that spreads over its hosts in batches.
type rolloutFlags struct {
	batch, maxFailures, maxUnavailable, order, at string
	canary                                        int
	bake, pause                                   time.Duration
	skipAway, canaryApproval                      bool
	set                                           *pflag.FlagSet
}

// flags adds the flags. An apply may have the batch in its file.
func (r *rolloutFlags) flags(cmd *cobra.Command, file bool) {
	r.set = pflag.NewFlagSet("rollout", pflag.ContinueOnError)
	f := r.set
	f.StringVar(&r.batch, "batch", "", "go through the hosts in batches of this size, such as 20 or 10%")
	f.IntVar(&r.canary, "canary", 0, "hosts of the first batch, of which none may fail")
	f.BoolVar(&r.canaryApproval, "canary-approval", false, "wait after the canaries until another person approves")
	f.DurationVar(&r.bake, "bake", 0, "how long the processes of a batch must stay well, such as 60s")
	f.DurationVar(&r.pause, "pause", 0, "wait before the next batch, after --bake, such as 30s")
	f.StringVar(&r.maxFailures, "max-failures", "", "hosts that may fail, such as 3 or 5%; default none")
	f.StringVar(&r.maxUnavailable, "max-unavailable", "", "hosts that may be down at the same time, such as 3 or 5%")
	f.StringVar(&r.order, "order", "", "the label or fact that sorts the hosts")
	f.BoolVar(&r.skipAway, "skip-away", false, "leave out hosts that are not connected")
	cmd.Flags().AddFlagSet(f)
	cmd.Flags().StringVar(&r.at, "at", "",
		"begin the rollout at this time of day in the server's time zone, such as 03:00, or at a time in RFC 3339")
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if r.batch != "" || file {
			_, err := r.plan()
			return err
		}
		var given []string
		for name := range r.fields() {
			given = append(given, "--"+strings.ReplaceAll(name, "_", "-"))
		}
		if r.at != "" {
			given = append(given, "--at")
		}
		if len(given) == 0 {
			return nil
		}
		slices.Sort(given)
		return term.Usagef("%s is for a rollout: give --batch", strings.Join(given, ", "))
	})
}

// fields returns the given flags by the names of the fields in a file.
func (r *rolloutFlags) fields() map[string]string {
	fields := map[string]string{}
	r.set.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			fields[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String()
		}
	})
	return fields
}

// plan returns the plan of the flags; nil if there is none.
func (r *rolloutFlags) plan() (*client.RolloutPlan, error) {
	p, err := r.read()
	if r.batch == "" {
		return nil, err
	}
	faults := []error{err}
	for _, f := range processfile.CheckRollout(&p) {
		if f.Path == "batch" && err != nil {
			continue // it could not be read
		}
		faults = append(faults, term.Usagef("--%s %s", strings.ReplaceAll(f.Path, "_", "-"), f.Text))
	}
	return &p, errors.Join(faults...)
}

// read returns the plan of the flags, also without a batch.
func (r *rolloutFlags) read() (client.RolloutPlan, error) {
	p := client.RolloutPlan{
		Canary: r.canary, Bake: client.Duration(r.bake), Pause: client.Duration(r.pause), Order: r.order,
		SkipAway: r.skipAway, CanaryApproval: r.canaryApproval,
	}
	var faults []error
	for _, size := range []struct {
		name, text string
		to         *client.HostCount
	}{
		{"batch", r.batch, &p.Batch},
		{"max-failures", r.maxFailures, &p.MaxFailures},
		{"max-unavailable", r.maxUnavailable, &p.MaxUnavailable},
	} {
		if size.text == "" {
			continue
		}
		var err error
		if *size.to, err = client.ParseHostCount(size.text); err != nil {
			faults = append(faults, term.Usagef("--%s: %w", size.name, err))
		}
	}
	return p, errors.Join(faults...)
}
