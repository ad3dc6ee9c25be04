package process

// wireResetAfter is the run time, in milliseconds, that is healthy for a spec without a RestartPolicy.
const wireResetAfter = 60_000

// Restarts returns the policy of relaunches: that of the spec, or what StartRetries and StartInterval mean.
func (s *Spec) Restarts() RestartPolicy {
	if s.Restart != nil {
		return *s.Restart
	}
	p := s.Policy.Defaulted()
	interval := int64(p.StartInterval) * 1000
	return RestartPolicy{
		When: Always, Delay: interval, MaxDelay: interval, Factor: 1, ResetAfter: wireResetAfter,
		GiveUpAfter: p.StartRetries, SuccessCodes: []string{"0"},
	}
}
