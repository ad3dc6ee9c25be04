package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/config"
)

func TestAgentSettings(t *testing.T) {
	key := strings.Repeat("0f", 32)
	for line, want := range map[string]string{
		"": "",
		"--limit-interval 1s --flap-relaunches 1 --flap-window 24h --relaunch-burst 1 --relaunch-rate 10000 --event-age 1h": "",
		"--limit-interval 60s --event-age 2160h":                       "",
		"--limit-interval 999ms":                                       "--limit-interval 999ms: expected 1s to 1m0s",
		"--limit-interval 61s":                                         "--limit-interval 1m1s: expected 1s to 1m0s",
		"--flap-relaunches 0 --flap-window 1s":                         "--flap-relaunches 0: expected 1 to 1000\n--flap-window 1s: expected 1m0s to 24h0m0s",
		"--relaunch-burst 0 --relaunch-rate -1":                        "--relaunch-burst 0: expected 1 to 100000\n--relaunch-rate -1: expected 1 to 10000",
		"--trial-time 15s --release-keys drk1-" + key + ",drk1-" + key: "",
		"--trial-time 14s":                                             "--trial-time 14s: expected 15s to 10m0s",
		"--release-keys drk1-" + key + ",":                             `--release-keys: release key "": expected drk1- and 64 hexadecimal digits`,
		"--process-metrics 10000":                                      "",
		"--process-metrics -1":                                         "--process-metrics -1: expected 0 to 10000",
		"--process-metrics 10001":                                      "--process-metrics 10001: expected 0 to 10000",
		"--event-age 2161h":                                            "--event-age 2161h0m0s: expected 1h0m0s to 2160h0m0s",
	} {
		a := config.DefaultAgent()
		cmd := &cobra.Command{}
		a.Flags(cmd.Flags())
		a.ReleaseFlags(cmd.Flags())
		if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := a.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
		if strings.HasPrefix(line, "--limit-interval 60s") && a.LimitInterval != time.Minute {
			t.Errorf("%s: every %v", line, a.LimitInterval)
		}
	}
}
